// Samples of a diffusion model on the device.
#include "cuda/caching.h"
#include "cuda/twin.h"
#include "tasks/diffusion/denoiser.h"
#include "tasks/diffusion/sample_images.h"
#include "tiny_dit.h"

namespace dtn::test {
namespace {

// Samples with a captured model have the bits of those without, also when a smaller batch follows.
TEST(CudaSampling, CapturedModel) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Caching caching;
  ModelConfig c = tiny_dit(ConditionInto::kAdalnZero, "dtn");
  Classifier model(c, 1, DType::kFloat32, kCuda);
  perturb(model.parameters());
  const Sampler sampler({}, {.steps = 5, .guidance = 2, .no_label = c.num_classes, .clip = true});
  const SampleRequest request{.labels = {0, 1, 2, 3, 4}, .image = {2, 4, 6}, .batch = 3};
  const Denoiser plain = denoiser_of(image_model(model), DType::kFloat32);
  int passes = 0;
  const Denoiser counted = [&](const Tensor& x, const Tensor& t, const Tensor& label) {
    ++passes;
    return plain(x, t, label);
  };
  const Tensor want = sample_images(sampler, plain, kCuda, request);
  const Denoiser captured = replayed(counted, kCuda);
  EXPECT_TRUE(same_bits(sample_images(sampler, captured, kCuda, request), want));
  EXPECT_EQ(passes, 2 * 3) << "two passes of each batch size, and one while it is captured";
  EXPECT_GT(max_abs(doubles(want)), 0.5);
}

}  // namespace
}  // namespace dtn::test
