// The loss of diffusion models against PyTorch in float64, which follows the textbook formulas.
#include "dtn/io/safetensors.h"
#include "dtn/ops/diffusion.h"
#include "tasks/diffusion/process.h"
#include "tasks/diffusion/schedule_table.h"
#include "tensors.h"

namespace dtn::test {
namespace {

// The largest difference, relative to the largest value.
double distance(const Tensor& got, const Tensor& want) {
  return max_abs_difference(doubles(got), doubles(want)) / max_abs(doubles(want));
}

struct Golden {
  TensorFile file = read_safetensors(DTN_TESTS_FOLDER "/golden/diffusion/loss.safetensors");

  const Tensor& at(const char* name) const { return *file.find(name); }
  ops::DiffusionBatch batch(DType dtype) const {
    return {as(at("images"), dtype), as(at("noise"), dtype), at("timesteps"),
            schedule_table(DiffusionProcess(DiffusionConfig()), kCpu)};
  }
};

struct Results {
  ops::DiffusionLoss loss;
  Tensor gradient;
};

Results run_loss(const Golden& golden, DType dtype) {
  const Variable output(as(golden.at("output"), dtype).clone(), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  Results results{ops::diffusion_loss(ctx, output, golden.batch(dtype)), {}};
  tape.backward(results.loss.mean);
  results.gradient = output.grad();
  return results;
}

TEST(DiffusionLossGolden, Float64FollowsTextbook) {
  const Golden golden;
  const Results r = run_loss(golden, DType::kFloat64);
  // The textbook subtracts images, which costs digits at small time steps.
  EXPECT_LT(distance(r.loss.mse, golden.at("mse")), 1e-14);
  EXPECT_LT(distance(r.loss.vb, golden.at("vb")), 1e-11);
  EXPECT_LT(distance(r.gradient, golden.at("gradient")), 1e-11);
  EXPECT_LT(distance(ops::noisy_images(golden.batch(DType::kFloat64)), golden.at("noisy")), 1e-14);
  const Doubles mse = doubles(golden.at("mse")), vb = doubles(golden.at("vb"));
  double mean = 0;
  for (std::size_t b = 0; b < mse.size(); ++b) {
    mean += (mse[b] + vb[b]) / static_cast<double>(mse.size());
  }
  EXPECT_NEAR(element(r.loss.mean.value(), 0), mean, 1e-11 * mean);
}

// Each image counts by itself: the bounds of large time steps are thousands of times smaller.
TEST(DiffusionLossGolden, Float32IsAccurateAtEveryTimeStep) {
  const Golden golden;
  const Results r = run_loss(golden, DType::kFloat32);
  const Doubles mse = doubles(golden.at("mse")), vb = doubles(golden.at("vb"));
  for (std::size_t b = 0; b < mse.size(); ++b) {
    const auto row = static_cast<std::int64_t>(b);
    EXPECT_NEAR(element(r.loss.mse, row), mse[b], 1e-6 * mse[b]) << b;
    EXPECT_NEAR(element(r.loss.vb, row), vb[b], 2e-6 * vb[b]) << b;
    const Tensor want = golden.at("gradient").slice(row, row + 1);
    EXPECT_LT(distance(r.gradient.slice(row, row + 1), want), 1e-6) << b;
  }
}

}  // namespace
}  // namespace dtn::test
