// Runs the loss of image-to-image models on the device.
#include "cuda/twin.h"
#include "pixel_loss_cases.h"

namespace dtn::test {
namespace {

// Returns the loss, the means of its terms and the gradient of the output.
std::vector<Tensor> run_pixel_loss(const PixelLossCase& c, DType dtype, Device device) {
  const Variable output(as(c.output().value, dtype).clone().to(device), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const ops::PixelLoss loss = ops::pixel_loss(ctx, output, c.target(dtype).to(device), c.weights);
  std::vector<Tensor> results{loss.loss.value().to(kCpu), loss.l1.to(kCpu), loss.l2.to(kCpu),
                              loss.charbonnier.to(kCpu)};
  const DType acc = accumulator_of(dtype);
  tape.backward(loss.loss, Tensor::full({1}, acc, 0.75).to(device));
  results.push_back(output.grad().to(kCpu));
  return results;
}

TEST(CudaPixelLoss, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const PixelLossCase& c : kPixelLossCases) {
    const std::vector<Tensor> want = run_pixel_loss(c, DType::kFloat64, kCpu);
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const std::vector<Tensor> got = run_pixel_loss(c, dtype, kCuda);
      for (std::size_t i = 0; i < want.size(); ++i) {
        expect_close("pixel_loss", cat(c.name(), " result ", i), got[i], doubles(want[i]),
                     rounding_bound(got[i].dtype(), 8));
      }
    }
  }
}

TEST(CudaPixelLoss, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  under_every_schedule([] { return run_pixel_loss(kPixelLossCases[3], DType::kFloat32, kCuda); });
}

}  // namespace
}  // namespace dtn::test
