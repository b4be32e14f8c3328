// Gradients of image-to-image models, against central differences in float64.
#include "tiny_unet.h"

namespace dtn {
namespace {

TEST(UNetGradients, MatchCentralDifferences) {
  constexpr std::int64_t kBatch = 3;
  const test::Threads one(1);
  for (const ModelConfig& c : test::tiny_unets()) {
    SCOPED_TRACE(test::title_of_unet(c));
    Classifier model(c, 5, DType::kFloat64);
    test::perturb(model.parameters());
    test::unet_image_and_gradients(model, kBatch, DType::kFloat64);
    test::expect_gradients_of_image(model, test::unet_inputs(c, kBatch, DType::kFloat64),
                                    [](const Parameter&, std::int64_t) { return false; });
  }
}

}  // namespace
}  // namespace dtn
