#include "dtn/ops/diffusion.h"

#include <optional>

#include "diffusion_cases.h"
#include "dtn/core/check.h"

namespace dtn::test {
namespace {

Variable output_of(const DiffusionCase& c, DType dtype) {
  return Variable(as(c.output().value, dtype).clone(), true);
}

TEST(DiffusionLoss, MatchesReferenceInFloat64) {
  for (const DiffusionCase& c : kDiffusionCases) {
    const auto want =
        run_op(diffusion_op(ops::reference::diffusion_loss, c), {c.output()}, DType::kFloat64);
    expect_close(run_op(diffusion_op(fused_diffusion_loss, c), {c.output()}, DType::kFloat64), want,
                 1e-12, c.name());
    const double bound = 2 * float32_tolerance(c.channels * c.height * c.width);
    expect_close(run_op(diffusion_op(fused_diffusion_loss, c), {c.output()}, DType::kFloat32), want,
                 bound, c.name());
    expect_close(run_op(diffusion_op(fused_diffusion_loss, c), {c.output()}, DType::kBFloat16),
                 want, bfloat16_tolerance(1), c.name());
  }
}

// The bound leaves the gradient of the predicted noise as it is without a variance.
TEST(DiffusionLoss, BoundHasNoGradientToNoise) {
  const DiffusionCase learned = kDiffusionCases[1];
  DiffusionCase plain = learned;
  plain.learned_variance = false;
  const auto gradient_of = [](const DiffusionCase& c, const Tensor& output) {
    const Variable leaf(output.clone(), true);
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    tape.backward(ops::diffusion_loss(ctx, leaf, c.batch(DType::kFloat32, kCpu)).mean);
    return leaf.grad();
  };
  const Tensor output = as(learned.output().value, DType::kFloat32);
  const std::int64_t each = learned.channels * learned.height * learned.width;
  const Tensor both = gradient_of(learned, output);
  Tensor first = Tensor::empty(plain.image(), DType::kFloat32);
  const Tensor rows = output.reshape({2 * plain.rows(), each});
  for (std::int64_t b = 0; b < plain.rows(); ++b) {
    first.slice(b, b + 1).copy_from(
        rows.slice(2 * b, 2 * b + 1).reshape(first.slice(0, 1).shape()));
  }
  const Tensor alone = gradient_of(plain, first);
  for (std::int64_t b = 0; b < plain.rows(); ++b) {
    EXPECT_EQ(std::memcmp(both.data<float>() + 2 * b * each, alone.data<float>() + b * each,
                          static_cast<std::size_t>(each) * sizeof(float)),
              0);
  }
}

TEST(DiffusionLoss, FiguresAddUpToLoss) {
  const DiffusionCase& c = kDiffusionCases[1];
  Context ctx;
  const ops::DiffusionLoss r =
      ops::diffusion_loss(ctx, output_of(c, DType::kFloat32), c.batch(DType::kFloat32, kCpu));
  const auto mean = [](const Tensor& t) {
    double sum = 0;
    for (double v : doubles(t)) sum += v;
    return sum / static_cast<double>(t.numel());
  };
  EXPECT_NEAR(element(r.mean_mse, 0), mean(r.mse), 1e-6);
  EXPECT_NEAR(element(r.mean_vb, 0), mean(r.vb), 1e-6);
  EXPECT_NEAR(element(r.mean.value(), 0), mean(r.mse) + mean(r.vb), 1e-5);
  // Time steps 0, 1, 250, 999 and 0 of 1000.
  EXPECT_EQ(as(r.quartile_share, DType::kFloat32).values<float>()[0], 0.6f);
  EXPECT_EQ(doubles(r.quartile_share)[2], 0);
  EXPECT_EQ(doubles(r.quartile_mse)[2], 0);
  EXPECT_NEAR(doubles(r.quartile_mse)[1], doubles(r.mse)[2] / 5, 1e-7);
  EXPECT_NEAR(doubles(r.quartile_mse)[3], doubles(r.mse)[3] / 5, 1e-7);
}

TEST(DiffusionLoss, NoisyImagesMixImageAndNoise) {
  const DiffusionCase& c = kDiffusionCases[1];
  const ops::DiffusionBatch batch = c.batch(DType::kFloat32, kCpu);
  const Doubles noisy = doubles(ops::noisy_images(batch));
  const Doubles start = doubles(batch.image), noise = doubles(batch.noise);
  const std::size_t each = noisy.size() / c.time.size();
  for (std::size_t i = 0; i < noisy.size(); ++i) {
    const double* row = batch.schedule.data<double>() + 6 * c.time[i / each];
    EXPECT_NEAR(noisy[i], row[0] * start[i] + row[1] * noise[i], 4e-7);
  }
}

TEST(DiffusionLoss, SameBitsForAnyNumberOfThreads) {
  const DiffusionCase& c = kDiffusionCases[2];
  std::optional<std::vector<Doubles>> first;
  for (int threads : kThreadCounts) {
    Threads scope(threads);
    const auto got = run_op(diffusion_op(fused_diffusion_loss, c), {c.output()}, DType::kFloat32);
    if (!first) first = got;
    EXPECT_EQ(got, *first) << threads;
  }
}

TEST(DiffusionLoss, InvalidInputIsError) {
  const DiffusionCase& c = kDiffusionCases[1];
  const auto expect_error = [&](auto&& change) {
    ops::DiffusionBatch batch = c.batch(DType::kFloat32, kCpu);
    Variable output = output_of(c, DType::kFloat32);
    change(batch, output);
    Context ctx;
    EXPECT_THROW(ops::diffusion_loss(ctx, output, batch), Error);
  };
  using Batch = ops::DiffusionBatch;
  expect_error([](Batch& b, Variable&) { b.noise = b.noise.slice(0, 2); });
  expect_error([](Batch& b, Variable&) { b.time = b.time.slice(0, 2); });
  expect_error([](Batch& b, Variable&) { b.time.data<std::int64_t>()[3] = 1000; });
  expect_error([](Batch& b, Variable&) { b.time.data<std::int64_t>()[3] = -1; });
  expect_error([](Batch& b, Variable&) { b.schedule = as(b.schedule, DType::kFloat32); });
  expect_error([](Batch&, Variable& o) { o = Variable(o.value().reshape({5, 1, 12, 5})); });
  expect_error([](Batch&, Variable& o) { o = Variable(as(o.value(), DType::kFloat64)); });
}

TEST(DiffusionLoss, GradientReusesMemoryOfOutputThatNothingElseHolds) {
  const DiffusionCase& c = kDiffusionCases[1];
  std::optional<Variable> output = output_of(c, DType::kFloat32);
  const GradSink sink = output->sink();
  const void* memory = output->value().raw();
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable loss = ops::diffusion_loss(ctx, *output, c.batch(DType::kFloat32, kCpu)).mean;
  output.reset();
  tape.backward(loss);
  EXPECT_EQ(sink->get().raw(), memory);
  const Variable kept = output_of(c, DType::kFloat32);
  Tape other;
  ctx.tape = &other;
  other.backward(ops::diffusion_loss(ctx, kept, c.batch(DType::kFloat32, kCpu)).mean);
  EXPECT_TRUE(same_bits(sink->get(), kept.grad()));
}

}  // namespace
}  // namespace dtn::test
