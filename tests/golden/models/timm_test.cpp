// Narrow networks with the options of public checkpoints against timm's, from
// tests/golden/data/timm.txt, which make_timm_goldens.py writes.
#include <fstream>
#include <set>
#include <sstream>

#include "dtn/config/load.h"
#include "dtn/models/weights.h"
#include "tiny_vit.h"
#include "unit/config/fake_norms.h"

namespace dtn {
namespace {

using test::Doubles;

constexpr std::uint32_t kImages = 1000;  // their seed

// The script's values().
Doubles values(std::uint32_t seed, std::int64_t count, double scale, double shift) {
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
  NamedTensors weights;  // under the names and in the shapes of timm's file
  Shape shape;           // of the output
  Doubles output;
};

Shape rest_as_shape(std::istream& words) {
  std::vector<std::int64_t> dims;
  for (std::int64_t d; words >> d;) dims.push_back(d);
  return Shape(dims);
}

void read_tensor(std::istream& words, Case& to) {
  std::string name;
  double shift = 0, scale = 0;
  words >> name >> shift >> scale;
  const Shape shape = rest_as_shape(words);
  const auto seed = static_cast<std::uint32_t>(to.weights.size() + 1);
  to.weights.emplace_back(
      name, test::from_doubles(values(seed, shape.numel(), scale, shift), shape, DType::kFloat32));
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::ifstream in(DTN_TESTS_FOLDER "/golden/data/timm.txt");
    EXPECT_TRUE(in.good());
    std::vector<Case> read;
    for (std::string line, word; std::getline(in, line);) {
      std::istringstream words(line);
      words >> word;
      if (word == "case") {
        words >> read.emplace_back().name;
      } else if (word == "model") {
        const std::string keys = line.substr(word.size());
        read.back().model =
            parse_experiment("model: {" + keys + "}", line, {}, testing::fake_schemas()).model;
      } else if (word == "tensor") {
        read_tensor(words, read.back());
      } else {
        std::int64_t rows = 0, columns = 0;
        words >> rows >> columns;
        read.back().shape = {rows, columns};
        for (double v; words >> v;) read.back().output.push_back(v);
      }
    }
    EXPECT_GE(read.size(), 19u);
    return read;
  }();
  return all;
}

double error_of(const Case& c, Classifier& model, DType dtype) {
  const int side = c.model.image_size;
  const Shape shape = {c.shape[0], 3, side, side};
  Context ctx = test::computing_in(dtype);
  const Tensor images = test::from_doubles(values(kImages, shape.numel(), 1, 0), shape, dtype);
  const Tensor output = model.forward(ctx, images).value();
  EXPECT_EQ(output.shape(), c.shape);
  return test::max_abs_difference(test::doubles(output), c.output) / test::max_abs(c.output);
}

// Of sums of up to 768 products, eight one behind the other. The file has 9 digits, and timm
// resizes positions in float32 whatever the model computes in.
double tolerance(DType dtype, bool resized) {
  if (dtype == DType::kFloat64 && !resized) return 1e-8;
  return 8 * test::unit_roundoff(DType::kFloat32) * std::sqrt(768.0);
}

TEST(NetworksOfTimm, ComputeTheSame) {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      SCOPED_TRACE(c.name + " in " + std::string(name_of(dtype)));
      Classifier model(c.model, 1, dtype);
      const auto notes = load_adapted(model, c.weights, c.name);
      const bool resized = c.name.ends_with("_grid");
      EXPECT_EQ(notes.size(), resized ? 1u : 0u);
      EXPECT_LE(error_of(c, model, dtype), tolerance(dtype, resized));
    }
  }
}

// What a model is saved as, timm loads with strict=True.
TEST(NetworksOfTimm, AreSavedUnderTimmsNames) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    if (c.name.ends_with("_grid")) continue;
    Classifier model(c.model, 1);
    std::set<std::pair<std::string, std::string>> ours, theirs;
    for (const auto& [name, tensor] : named_values(model.parameters())) {
      ours.emplace(name, to_string(tensor.shape()));
    }
    for (const auto& [name, tensor] : c.weights) theirs.emplace(name, to_string(tensor.shape()));
    EXPECT_EQ(ours, theirs);
  }
}

}  // namespace
}  // namespace dtn
