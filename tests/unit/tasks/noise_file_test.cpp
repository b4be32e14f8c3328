#include "tasks/diffusion/noise_file.h"

#include <gtest/gtest.h>

#include "dtn/core/check.h"
#include "dtn/io/safetensors.h"
#include "temp_folder.h"
#include "tensors.h"
#include "texts.h"

namespace dtn::test {
namespace {

const Shape kImages{2, 1, 3, 4};

class NoiseFile : public ::testing::Test {
 protected:
  GivenNoise read(const NamedTensors& tensors, SamplerKind kind, double eta = 0) const {
    const auto file = folder_.path() / "noise.safetensors";
    write_safetensors(file, tensors);
    return read_noise_file(file, kImages,
                           Sampler(DiffusionConfig{}, {.kind = kind, .steps = 5, .eta = eta}));
  }
  std::string error_of(const NamedTensors& tensors, SamplerKind kind) const {
    try {
      read(tensors, kind);
    } catch (const DataError& e) {
      return e.what();
    }
    return "";
  }
  static Tensor noise(const Shape& shape) { return as(random_tensor(shape, 1), DType::kFloat32); }

  TempFolder folder_;
};

TEST_F(NoiseFile, GivesWhatTheSamplerNeeds) {
  const Tensor x = noise(kImages), z = noise({5, 2, 1, 3, 4});
  const GivenNoise ddim = read({{"x", x}, {"z", z}}, SamplerKind::kDdim);
  EXPECT_TRUE(same_bits(ddim.x, x));
  EXPECT_FALSE(ddim.z.defined());
  EXPECT_TRUE(same_bits(read({{"x", x}}, SamplerKind::kDdim).x, x));
  EXPECT_TRUE(same_bits(read({{"x", x}, {"z", z}}, SamplerKind::kDdpm).z, z));
  EXPECT_TRUE(same_bits(read({{"x", x}, {"z", z}}, SamplerKind::kDdim, 0.5).z, z));
}

TEST_F(NoiseFile, ErrorsNameFileAndShapes) {
  const Tensor x = noise(kImages);
  expect_contains(error_of({{"y", x}}, SamplerKind::kDdim), "noise.safetensors: has no tensor `x`");
  expect_contains(error_of({{"x", x}}, SamplerKind::kDdpm), "has no tensor `z`");
  // More images than classes.
  const std::string more = error_of({{"x", noise({3, 1, 3, 4})}}, SamplerKind::kDdim);
  expect_contains(more, "`x` is [3, 1, 3, 4], expected [2, 1, 3, 4]");
  expect_contains(error_of({{"x", x}, {"z", noise({4, 2, 1, 3, 4})}}, SamplerKind::kDdpm),
                  "`z` is [4, 2, 1, 3, 4], expected [5, 2, 1, 3, 4]");
  expect_contains(error_of({{"x", as(x, DType::kFloat64)}}, SamplerKind::kDdim), "float64");
}

}  // namespace
}  // namespace dtn::test
