// Narrow networks and their outputs, from files that make_timm_goldens.py writes.
#pragma once

#include <fstream>
#include <sstream>

#include "dtn/config/load.h"
#include "dtn/models/weights.h"
#include "tiny_vit.h"

namespace dtn::golden {

using test::Doubles;

inline constexpr std::uint32_t kImages = 1000;  // seed of the images

// Same as values() of the script.
inline Doubles values(std::uint32_t seed, std::int64_t count, double scale, double shift) {
  Doubles out;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t h = i * 2654435761u + seed * 40503u;
    h ^= h >> 13;
    h *= 0x5BD1E995u;
    h ^= h >> 15;
    out.push_back(((h >> 16) / 32768.0 - 1) * scale + shift);
  }
  return out;
}

struct Case {
  std::string name;
  ModelConfig model;
  NamedTensors weights;  // with the names and shapes of timm's file
  Shape shape;           // shape of the output
  Doubles output;
};

inline Shape rest_as_shape(std::istream& words) {
  std::vector<std::int64_t> dims;
  for (std::int64_t d; words >> d;) dims.push_back(d);
  return Shape(dims);
}

inline void read_tensor(std::istream& words, Case& to) {
  std::string name;
  double shift = 0, scale = 0;
  words >> name >> shift >> scale;
  const Shape shape = rest_as_shape(words);
  const auto seed = static_cast<std::uint32_t>(to.weights.size() + 1);
  to.weights.emplace_back(
      name, test::from_doubles(values(seed, shape.numel(), scale, shift), shape, DType::kFloat32));
}

// Reads the cases of a file in tests/golden/data.
inline std::vector<Case> read_cases(const std::string& file, const ConfigSchemas& schemas) {
  std::ifstream in(DTN_TESTS_FOLDER "/golden/data/" + file);
  EXPECT_TRUE(in.good());
  std::vector<Case> read;
  for (std::string line, word; std::getline(in, line);) {
    std::istringstream words(line);
    words >> word;
    if (word == "case") {
      words >> read.emplace_back().name;
    } else if (word == "model") {
      const std::string keys = line.substr(word.size());
      read.back().model = parse_experiment("model: {" + keys + "}", line, {}, schemas).model;
    } else if (word == "tensor") {
      read_tensor(words, read.back());
    } else {
      std::int64_t rows = 0, columns = 0;
      words >> rows >> columns;
      read.back().shape = {rows, columns};
      for (double v; words >> v;) read.back().output.push_back(v);
    }
  }
  return read;
}

// Returns the largest difference from the output, relative to the largest value of the output.
inline double error_of(const Case& c, Classifier& model, DType dtype) {
  const Shape shape = {c.shape[0], 3, c.model.image_size.height, c.model.image_size.width};
  Context ctx = test::computing_in(dtype);
  const Tensor images = test::from_doubles(values(kImages, shape.numel(), 1, 0), shape, dtype);
  const Tensor output = model.forward(ctx, images).value();
  EXPECT_EQ(output.shape(), c.shape);
  return test::max_abs_difference(test::doubles(output), c.output) / test::max_abs(c.output);
}

}  // namespace dtn::golden
