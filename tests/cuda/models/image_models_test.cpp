// Diffusion transformers and image-to-image models on the device, compared with the CPU: images and
// all gradients.
#include "cuda/twin.h"
#include "tiny_dit.h"
#include "tiny_unet.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kBatch = 3;

// About sixty rounded results follow one another, in float32 with other orders of sums, or in
// bfloat16. The bound is four standard deviations.
double tolerance_of(DType compute) {
  return compute == DType::kBFloat16 ? 4 * std::sqrt(60.0) * unit_roundoff(compute) : 5e-5;
}

// `inputs_on` returns the inputs of the model on a device.
void expect_same_as_host(const ModelConfig& c, DType compute,
                         const std::function<Fields(Device)>& inputs_on) {
  Classifier host(c, 1), device(c, 1, DType::kFloat32, kCuda);
  perturb(host.parameters());
  perturb(device.parameters());
  if (compute == DType::kBFloat16) {
    host.parameters().enable_bfloat16();
    device.parameters().enable_bfloat16();
  }
  const auto want = doubles(image_and_gradients(host, inputs_on(kCpu), compute));
  const auto got = doubles(image_and_gradients(device, inputs_on(kCuda), compute).to(kCpu));
  const double tolerance = tolerance_of(compute);
  EXPECT_LE(max_abs_difference(got, want), tolerance * max_abs(want));
  const auto dwant = doubles(host.parameters().gradients());
  const auto dgot = doubles(device.parameters().gradients().to(kCpu));
  EXPECT_GT(max_abs(dwant), 0.1);
  EXPECT_LE(max_abs_difference(dgot, dwant), 2 * tolerance * max_abs(dwant));
}

TEST(CudaDit, MatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const ModelConfig& c : tiny_dits()) {
    for (const DType compute : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(cat(title_of_dit(c), ", ", name_of(compute)));
      expect_same_as_host(c, compute,
                          [&](Device on) { return dit_inputs(c, kBatch, DType::kFloat32, on); });
    }
  }
}

TEST(CudaUNet, MatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const ModelConfig& c : tiny_unets()) {
    for (const DType compute : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(cat(title_of_unet(c), ", ", name_of(compute)));
      expect_same_as_host(c, compute,
                          [&](Device on) { return unet_inputs(c, kBatch, DType::kFloat32, on); });
    }
  }
}

}  // namespace
}  // namespace dtn::test
