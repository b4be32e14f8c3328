// Runs the diffusion loss and the noising of images on the device.
#include "cuda/twin.h"
#include "diffusion_cases.h"

namespace dtn::test {
namespace {

// Returns the loss, the gradient of the output, and the figures for the log.
std::vector<Tensor> run_on_device(const DiffusionCase& c, DType dtype) {
  const Variable output(as(c.output().value, dtype).to(kCuda), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const ops::DiffusionLoss r = ops::diffusion_loss(ctx, output, c.batch(dtype, kCuda));
  std::vector<Tensor> results{r.mean.value().to(kCpu), r.mse.to(kCpu), r.quartile_mse.to(kCpu),
                              r.quartile_share.to(kCpu)};
  if (r.vb.defined()) results.push_back(r.vb.to(kCpu));
  tape.backward(r.mean, Tensor::full({1}, DType::kFloat32, 0.75).to(kCuda));
  results.push_back(output.grad().to(kCpu));
  return results;
}

std::vector<Doubles> run_on_host(const DiffusionCase& c) {
  const Variable output(c.output().value.clone(), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const ops::DiffusionLoss r = ops::diffusion_loss(ctx, output, c.batch(DType::kFloat64, kCpu));
  std::vector<Doubles> results{doubles(r.mean.value()), doubles(r.mse), doubles(r.quartile_mse),
                               doubles(r.quartile_share)};
  if (r.vb.defined()) results.push_back(doubles(r.vb));
  tape.backward(r.mean, Tensor::full({1}, DType::kFloat64, 0.75));
  results.push_back(doubles(output.grad()));
  return results;
}

TEST(CudaDiffusion, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const DiffusionCase& c : kDiffusionCases) {
    const std::vector<Doubles> want = run_on_host(c);
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const std::vector<Tensor> got = run_on_device(c, dtype);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        // Only the gradient, the last, is stored in the type of the output.
        const double bound = rounding_bound(got[i].dtype(), 16 * c.channels * c.height * c.width);
        expect_close("diffusion_loss", cat(c.name(), " result ", i), got[i], want[i], bound);
      }
    }
    const Tensor noisy = ops::noisy_images(c.batch(DType::kFloat32, kCuda)).to(kCpu);
    expect_close("diffuse_images", c.name(), noisy,
                 doubles(ops::noisy_images(c.batch(DType::kFloat64, kCpu))),
                 rounding_bound(DType::kFloat32, 4));
  }
}

TEST(CudaDiffusion, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  under_every_schedule([] { return run_on_device(kDiffusionCases[2], DType::kFloat32); });
}

// A time step that the host cannot check makes its own image NaN, and only that one.
TEST(CudaDiffusion, InvalidTimeStepGivesNaN) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t time : {std::int64_t{-1}, std::int64_t{1000}}) {
    DiffusionCase c = kDiffusionCases[1];
    c.time[2] = time;
    const std::vector<Tensor> got = run_on_device(c, DType::kFloat32);
    const Doubles mse = doubles(got[1]), gradient = doubles(got.back());
    const std::size_t each = gradient.size() / c.time.size();
    for (std::size_t b = 0; b < mse.size(); ++b) EXPECT_EQ(std::isnan(mse[b]), b == 2);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_EQ(std::isnan(gradient[i]), i / each == 2) << i;
    }
    const ops::DiffusionBatch batch = c.batch(DType::kFloat32, kCuda);
    EXPECT_TRUE(std::isnan(doubles(ops::noisy_images(batch).to(kCpu))[2 * each / 2]));
  }
}

}  // namespace
}  // namespace dtn::test
