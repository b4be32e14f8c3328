// Compares narrow LeViTs, ResNets, RegNetYs and T2T-ViTs with PyTorch's. The expected values are in
// tests/golden/data/convolutional.txt, which make_convolutional_goldens.py writes.
#include <algorithm>

#include "dtn/nn/normalizer.h"
#include "golden/models/network_cases.h"
#include "unit/config/fake_norms.h"

namespace dtn {
namespace {

const std::vector<golden::Case>& networks() {
  static const std::vector<golden::Case> all = [] {
    ConfigSchemas schemas = testing::fake_schemas();
    schemas.norms = norm_registry().schemas();
    schemas.models = model_registry().schemas();
    return golden::read_cases("convolutional.txt", schemas);
  }();
  EXPECT_EQ(all.size(), 7u);
  return all;
}

// The file has 9 digits. Sums have up to 3312 products; about fifty sums follow one another.
TEST(ConvolutionalNetworks, MatchGolden) {
  for (const golden::Case& c : networks()) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      SCOPED_TRACE(c.name + " in " + std::string(name_of(dtype)));
      Classifier model(c.model, 1, dtype);
      EXPECT_TRUE(
          load_adapted(model, c.weights, c.name, {.image_size = c.model.image_size}).empty());
      const double tolerance = dtype == DType::kFloat64
                                   ? 1e-8
                                   : 50 * test::unit_roundoff(DType::kFloat32) * std::sqrt(3312.0);
      EXPECT_LE(golden::error_of(c, model, dtype), tolerance);
    }
  }
}

// PyTorch loads the saved models: the names are the same. LeViT is an exception: it uses the names
// of its authors, not of timm.
TEST(ConvolutionalNetworks, ParameterNamesMatchPyTorch) {
  for (const golden::Case& c : networks()) {
    SCOPED_TRACE(c.name);
    Classifier model(c.model, 1);
    std::vector<std::string> ours, theirs;
    for (const auto& [name, tensor] : named_values(model.parameters())) {
      ours.push_back(name + " " + to_string(tensor.shape()));
    }
    for (const auto& [name, tensor] : c.weights) {
      theirs.push_back(name + " " + to_string(tensor.shape()));
    }
    EXPECT_EQ(ours.size(), theirs.size());
    if (c.model.family == "levit") continue;
    std::ranges::sort(ours);
    std::ranges::sort(theirs);
    EXPECT_EQ(ours, theirs);
  }
}

}  // namespace
}  // namespace dtn
