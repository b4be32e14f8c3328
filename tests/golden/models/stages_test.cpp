// Compares narrow PVT, PVTv2 and Swin on wide images with PyTorch's, with LayerNorm and with DTN's
// formulas in its place. The expected values are in tests/golden/data/stages.txt, which
// make_timm_goldens.py writes. They come from timm's networks under timm's names. timm has no PVT,
// so PVT is computed from its formulas.
#include "dtn/models/presets.h"
#include "golden/models/network_cases.h"

namespace dtn {
namespace {

ConfigSchemas schemas() {
  ConfigSchemas all;
  all.norms = norm_registry().schemas();
  all.models = model_registry().schemas();
  all.presets = {preset_registry().begin(), preset_registry().end()};
  all.policies = {{"none", "nothing", {}}};
  return all;
}

// The file has 9 digits. Sums have up to 512 products; about thirty sums follow one another.
double tolerance(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-8;
  return 30 * test::unit_roundoff(DType::kFloat32) * std::sqrt(512.0);
}

TEST(StageNetworks, MatchGolden) {
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
