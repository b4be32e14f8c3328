// Narrow PVT, PVTv2 and Swin on wide images against PyTorch's, from tests/golden/data/stages.txt,
// which make_timm_goldens.py writes: timm's networks under timm's names, and PVT, which timm lacks,
// from its formulas; with LayerNorm and with DTN's formulas in its place.
#include "golden/models/network_cases.h"

namespace dtn {
namespace {

ConfigSchemas schemas() {
  ConfigSchemas all;
  all.norms = norm_registry().schemas();
  all.models = model_registry().schemas();
  all.policies = {{"none", "nothing", {}}};
  return all;
}

// Of sums of up to 512 products, some thirty one behind the other. The file has 9 digits.
double tolerance(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-8;
  return 30 * test::unit_roundoff(DType::kFloat32) * std::sqrt(512.0);
}

TEST(NetworksOfStages, ComputeTheSame) {
  const std::vector<golden::Case> cases = golden::read_cases("stages.txt", schemas());
  ASSERT_EQ(cases.size(), 6u);
  for (const golden::Case& c : cases) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      SCOPED_TRACE(c.name + " in " + std::string(name_of(dtype)));
      Classifier model(c.model, 1, dtype);
      EXPECT_TRUE(
          load_adapted(model, c.weights, c.name, {.image_size = c.model.image_size}).empty());
      EXPECT_LE(golden::error_of(c, model, dtype), tolerance(dtype));
    }
  }
}

}  // namespace
}  // namespace dtn
