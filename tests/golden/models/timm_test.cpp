// Compares narrow networks that have the options of public checkpoints with timm's. The expected
// values are in tests/golden/data/timm.txt, which make_timm_goldens.py writes.
#include <set>

#include "golden/models/network_cases.h"
#include "unit/config/fake_norms.h"

namespace dtn {
namespace {

using golden::Case;

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> read = golden::read_cases("timm.txt", testing::fake_schemas());
    EXPECT_GE(read.size(), 19u);
    return read;
  }();
  return all;
}

// The file has 9 digits. Sums have up to 768 products; eight sums follow one another. timm resizes
// positions in float32 for every compute type.
double tolerance(DType dtype, bool resized) {
  if (dtype == DType::kFloat64 && !resized) return 1e-8;
  return 8 * test::unit_roundoff(DType::kFloat32) * std::sqrt(768.0);
}

TEST(TimmNetworks, MatchGolden) {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      SCOPED_TRACE(c.name + " in " + std::string(name_of(dtype)));
      Classifier model(c.model, 1, dtype);
      const auto notes = load_adapted(model, c.weights, c.name);
      const bool resized = c.name.ends_with("_grid");
      EXPECT_EQ(notes.size(), resized ? 1u : 0u);
      EXPECT_LE(golden::error_of(c, model, dtype), tolerance(dtype, resized));
    }
  }
}

// timm loads the saved models with strict=True.
TEST(TimmNetworks, ParameterNamesMatchTimm) {
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
