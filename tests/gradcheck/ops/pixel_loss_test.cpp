// Checks the loss of image-to-image models against central differences in float64.
#include "gradcheck/ops/op_gradients.h"
#include "pixel_loss_cases.h"

namespace dtn::test {
namespace {

TEST(PixelLossGradients, Output) {
  for (const PixelLossCase& c : kPixelLossCases) {
    if (c.shape.numel() > 1000) continue;  // central differences of every pixel
    check_both(c.name(), fused_pixel_loss(c), reference_pixel_loss(c), {c.output().value});
  }
}

}  // namespace
}  // namespace dtn::test
