#include "dtn/core/check.h"
#include "pixel_loss_cases.h"

namespace dtn::test {
namespace {

TEST(PixelLoss, MatchesReferenceInFloat64) {
  for (const PixelLossCase& c : kPixelLossCases) {
    const auto want = run_op(reference_pixel_loss(c), {c.output()}, DType::kFloat64);
    expect_close(run_op(fused_pixel_loss(c), {c.output()}, DType::kFloat64), want, 1e-12, c.name());
    expect_close(run_op(fused_pixel_loss(c), {c.output()}, DType::kFloat32), want,
                 float32_tolerance(8), c.name());
    expect_close(run_op(fused_pixel_loss(c), {c.output()}, DType::kBFloat16), want,
                 bfloat16_tolerance(1), c.name());
  }
}

TEST(PixelLoss, HasTheMeansOfItsTerms) {
  const Tensor output = Tensor::from(std::vector<float>{0.5f, 0.25f, 1, 0}, {1, 1, 2, 2});
  const Tensor target = Tensor::from(std::vector<float>{0, 0.25f, 0.5f, 0.5f}, {1, 1, 2, 2});
  Context ctx;
  const ops::PixelLoss loss =
      ops::pixel_loss(ctx, Variable(output), target, {2, 0, 0, /*charbonnier_eps=*/1});
  EXPECT_FLOAT_EQ(loss.l1.data<float>()[0], 0.375f);
  EXPECT_FLOAT_EQ(loss.l2.data<float>()[0], 0.1875f);
  EXPECT_NEAR(loss.charbonnier.data<float>()[0], (3 * std::sqrt(1.25) + 1) / 4, 1e-7);
  EXPECT_FLOAT_EQ(loss.loss.value().data<float>()[0], 0.75f);
}

// |d| has the slope 0 where output and target are equal.
TEST(PixelLoss, HasNoSlopeAtEqualPixels) {
  const Tensor both = Tensor::from(std::vector<float>{0.5f, 0.25f}, {1, 1, 1, 2});
  const Variable output(both.clone(), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  tape.backward(ops::pixel_loss(ctx, output, both, {1, 1, 1, 1e-3}).loss);
  EXPECT_EQ(doubles(output.grad()), Doubles({0, 0}));
}

TEST(PixelLoss, RefusesTargetsThatDoNotFit) {
  Context ctx;
  const Variable output(Tensor::zeros({1, 1, 2, 2}, DType::kFloat32));
  const auto loss = [&](const Tensor& target) { ops::pixel_loss(ctx, output, target, {}); };
  EXPECT_THROW(loss(Tensor::zeros({1, 1, 2, 3}, DType::kFloat32)), Error);
  EXPECT_THROW(loss(Tensor::zeros({1, 1, 2, 2}, DType::kFloat64)), Error);
  EXPECT_THROW(loss(Tensor()), Error);
}

}  // namespace
}  // namespace dtn::test
