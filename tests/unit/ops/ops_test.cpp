// Operations beyond their values: errors, random draws, and data that stays unchanged.
#include "core/allocator.h"
#include "dtn/ops/attention.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/gather.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/tokens.h"
#include "tensors.h"

namespace dtn {
namespace {

using test::random_tensor;

Tensor labels(std::vector<std::int64_t> values) {
  auto n = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {n});
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Ops, RejectInvalidShapes) {
  Context ctx;
  Variable x(random_tensor({2, 3, 8}, 1)), w(random_tensor({4, 7}, 2));
  EXPECT_THROW(ops::linear(ctx, x, w, {}), Error);
  EXPECT_THROW(ops::attention(ctx, x, 1), Error) << "8 is not 3 heads' width";
  EXPECT_THROW(ops::attention(ctx, Variable(random_tensor({2, 3, 24}, 3)), 3), Error);
  Variable qkv(random_tensor({2, 6, 24}, 3)), pos(random_tensor({2, 3}, 8));
  EXPECT_THROW(ops::attention_on_grid(ctx, qkv, 2, pos, 2, 2), Error) << "6 tokens on 4 places";
  EXPECT_THROW(ops::attention_on_grid(ctx, qkv, 4, pos, 2, 3), Error) << "weights of 2 heads";
  Variable q(random_tensor({2, 1, 8}, 9)), kv(random_tensor({2, 3, 16}, 10));
  EXPECT_NO_THROW(ops::query_attention(ctx, q, kv, 2));
  EXPECT_THROW(ops::query_attention(ctx, q, kv, 3), Error);
  EXPECT_THROW(ops::query_attention(ctx, q, x, 2), Error) << "no room for keys and values";
  EXPECT_THROW(ops::query_attention(ctx, Variable(random_tensor({1, 1, 8}, 9)), kv, 2), Error);
  Variable weight(random_tensor({4, 8}, 11));
  EXPECT_THROW(ops::linear_rows(ctx, x, weight, {}, 2, 5), Error);
  EXPECT_THROW(ops::linear_rows(ctx, x, weight, {}, 3, 3), Error);
  EXPECT_THROW(ops::add_positions(ctx, x, Variable(random_tensor({1, 4, 8}, 4))), Error);
  EXPECT_THROW(ops::residual_add(ctx, x, Variable(random_tensor({2, 4, 8}, 5)), {}), Error);
  EXPECT_THROW(ops::patch_embed(ctx, random_tensor({1, 3, 5, 4}, 6),
                                Variable(random_tensor({8, 3, 2, 2}, 7)), {}, DType::kFloat64),
               Error);
}

TEST(Ops, RejectLabelsOutOfRange) {
  Context ctx;
  Variable logits(random_tensor({3, 4}, 8));
  for (std::int64_t bad : {-1, 4}) {
    ops::Targets t;
    t.labels = labels({0, bad, 1});
    std::string message = error_of([&] { ops::cross_entropy(ctx, logits, t); });
    EXPECT_NE(message.find(cat("label ", bad, " of sample 1")), std::string::npos) << message;
  }
  ops::Targets few;
  few.labels = labels({0, 1});
  EXPECT_THROW(ops::cross_entropy(ctx, logits, few), Error);
  EXPECT_THROW(ops::cross_entropy(ctx, logits, {}), Error);

  ops::Targets mixed;
  mixed.labels = labels({0, 3, 1});
  mixed.partner_labels = labels({0, 1, 4});
  EXPECT_THROW(ops::cross_entropy(ctx, logits, mixed), Error);  // no shares
  mixed.label_share = Tensor::full({3}, DType::kFloat32, 0.5);
  std::string message = error_of([&] { ops::cross_entropy(ctx, logits, mixed); });
  EXPECT_NE(message.find("label 4 of sample 2"), std::string::npos) << message;
  mixed.partner_labels = labels({0, 1, 2});
  EXPECT_NO_THROW(ops::cross_entropy(ctx, logits, mixed));
  mixed.label_share = Tensor::full({2}, DType::kFloat32, 0.5);
  EXPECT_THROW(ops::cross_entropy(ctx, logits, mixed), Error);
}

// Shared labels equal dense targets with the same shares.
TEST(Ops, MixedLabelsMatchDenseTargets) {
  Context ctx;
  Variable logits(random_tensor({3, 4}, 8));
  ops::Targets mixed, dense;
  mixed.labels = labels({0, 3, 1});
  mixed.partner_labels = labels({1, 3, 0});
  mixed.label_share = Tensor::from<float>(std::vector<float>{0.75f, 0.25f, 0}, {3});
  mixed.smoothing = 0.2;
  dense.soft = Tensor::from<double>(
      std::vector<double>{0.65, 0.25, 0.05, 0.05, 0.05, 0.05, 0.05, 0.85, 0.85, 0.05, 0.05, 0.05},
      {3, 4});
  const Tensor got = ops::cross_entropy(ctx, logits, mixed).per_sample;
  const Tensor want = ops::cross_entropy(ctx, logits, dense).per_sample;
  EXPECT_LT(test::max_abs_difference(test::doubles(got), test::doubles(want)), 1e-15);
}

TEST(Ops, CrossEntropyReturnsLossPerSample) {
  Context ctx;
  Variable logits(Tensor::from<double>(std::vector<double>{0, 0, 0, std::log(3.0)}, {2, 2}));
  ops::Targets t;
  t.labels = labels({1, 0});
  ops::LossResult r = ops::cross_entropy(ctx, logits, t);
  EXPECT_NEAR(r.per_sample.data<double>()[0], std::log(2.0), 1e-15);
  EXPECT_NEAR(r.per_sample.data<double>()[1], std::log(4.0), 1e-15);
  EXPECT_NEAR(*r.mean.value().data<double>(), std::log(8.0) / 2, 1e-15);
}

TEST(Ops, WeightedCrossEntropyRejectsUnfitWeights) {
  Context ctx;
  const Variable logits(random_tensor({3, 4}, 8));
  ops::Targets t;
  t.labels = labels({0, 3, 1});
  const Tensor fit = random_tensor({4}, 9, 1, 1);
  EXPECT_NO_THROW(ops::weighted_cross_entropy(ctx, logits, t, {fit, 2}));
  EXPECT_THROW(ops::weighted_cross_entropy(ctx, logits, t, {fit, -1}), Error);
  EXPECT_THROW(ops::weighted_cross_entropy(ctx, logits, t, {fit.slice(0, 3), 2}), Error);
  EXPECT_THROW(ops::weighted_cross_entropy(ctx, logits, t, {test::as(fit, DType::kFloat32), 2}),
               Error);
  t.labels = labels({0, 4, 1});
  EXPECT_THROW(ops::weighted_cross_entropy(ctx, logits, t, {fit, 2}), Error);
  EXPECT_THROW(ops::sum_class_weights(fit, t.labels), Error);
}

TEST(Ops, ClassWeightsOfLabelsAreAddedUp) {
  const Tensor weights = Tensor::from<float>(std::vector<float>{0.5f, 2, 0, 1.75f}, {4});
  EXPECT_EQ(*ops::sum_class_weights(weights, labels({1, 3, 3, 2, 0})).data<float>(), 6);
  EXPECT_EQ(*ops::sum_class_weights(weights, labels({2, 2})).data<float>(), 0);
}

TEST(Ops, BinaryCrossEntropyAveragesOrSumsClasses) {
  Context ctx;
  Variable logits(Tensor::from<double>(std::vector<double>{0, 0, 0, std::log(3.0)}, {2, 2}));
  ops::Targets t;
  t.labels = labels({1, 0});
  const ops::LossResult mean = ops::binary_cross_entropy(ctx, logits, t);
  EXPECT_NEAR(mean.per_sample.data<double>()[0], std::log(2.0), 1e-15);
  EXPECT_NEAR(mean.per_sample.data<double>()[1], std::log(8.0) / 2, 1e-15);
  EXPECT_NEAR(*mean.mean.value().data<double>(), std::log(32.0) / 4, 1e-15);
  const ops::LossResult sum = ops::binary_cross_entropy(ctx, logits, t, {std::nullopt, true});
  EXPECT_NEAR(*sum.mean.value().data<double>(), std::log(32.0) / 2, 1e-15);
}

// Both classes of a mixed image are targets, as in DeiT III.
TEST(Ops, BinaryCrossEntropyThresholdTargetsBothMixedClasses) {
  Context ctx;
  Variable logits(random_tensor({2, 4}, 8));
  ops::Targets mixed, dense;
  mixed.labels = labels({0, 3});
  mixed.partner_labels = labels({1, 3});
  mixed.label_share = Tensor::from<float>(std::vector<float>{0.9f, 0.25f}, {2});
  dense.soft = Tensor::from<double>(std::vector<double>{1, 1, 0, 0, 0, 0, 0, 1}, {2, 4});
  const Tensor got = ops::binary_cross_entropy(ctx, logits, mixed, {0.0, false}).per_sample;
  const Tensor want = ops::binary_cross_entropy(ctx, logits, dense).per_sample;
  EXPECT_EQ(test::doubles(got), test::doubles(want));
  mixed.label_share.data<float>()[0] = 0;  // only its partner
  dense.soft.data<double>()[0] = 0;
  EXPECT_EQ(test::doubles(ops::binary_cross_entropy(ctx, logits, mixed, {0.0, false}).per_sample),
            test::doubles(ops::binary_cross_entropy(ctx, logits, dense).per_sample));
}

// The definitions of timm and DeiT, in float64.
TEST(Ops, DistillationMatchesFormulas) {
  Context ctx;
  constexpr std::int64_t B = 3, K = 5;
  const Tensor s = random_tensor({B, K}, 30, 2), t = random_tensor({B, K}, 31, 2);
  const auto log_softmax = [&](const Tensor& z, std::int64_t b, double T) {
    std::vector<double> out(K);
    double sum = 0;
    for (std::int64_t k = 0; k < K; ++k) sum += std::exp(z.data<double>()[b * K + k] / T);
    for (std::int64_t k = 0; k < K; ++k) {
      out[static_cast<std::size_t>(k)] = z.data<double>()[b * K + k] / T - std::log(sum);
    }
    return out;
  };
  double hard = 0, soft = 0;
  for (std::int64_t b = 0; b < B; ++b) {
    const double* row = t.data<double>() + b * K;
    hard -= log_softmax(s, b, 1)[static_cast<std::size_t>(std::max_element(row, row + K) - row)];
    const auto p = log_softmax(s, b, 3), q = log_softmax(t, b, 3);
    for (std::size_t k = 0; k < K; ++k) soft += 9 * std::exp(q[k]) * (q[k] - p[k]);
  }
  const auto loss = [&](const ops::DistillOptions& how) {
    return *ops::distillation(ctx, Variable(s), t, how).value().data<double>();
  };
  EXPECT_NEAR(loss({}), hard / B, 1e-14);
  EXPECT_NEAR(loss({.hard = true, .temperature = 3}), hard / B, 1e-14);
  EXPECT_NEAR(loss({.hard = false, .temperature = 3}), soft / B, 1e-14);
  EXPECT_NEAR(loss({.hard = false, .temperature = 3, .mean = true}), soft / (B * K), 1e-14);
  // For a student equal to the teacher, the soft loss is 0.
  EXPECT_NEAR(*ops::distillation(ctx, Variable(t), t, {.hard = false}).value().data<double>(), 0,
              1e-14);
  // With equal logits the teacher's answer is the first class. NaN gives NaN.
  const Tensor equal = Tensor::full({B, K}, DType::kFloat64, 1);
  ops::Targets first;
  first.labels = labels({0, 0, 0});
  EXPECT_EQ(*ops::distillation(ctx, Variable(s), equal).value().data<double>(),
            *ops::cross_entropy(ctx, Variable(s), first).mean.value().data<double>());
  Tensor broken = t.clone();
  broken.data<double>()[7] = NAN;
  for (bool is_hard : {true, false}) {
    EXPECT_TRUE(std::isnan(
        *ops::distillation(ctx, Variable(s), broken, {.hard = is_hard}).value().data<double>()));
  }
}

TEST(Ops, DropInTrainingOnly) {
  Context ctx;
  Variable x(random_tensor({2, 3}, 9));
  EXPECT_EQ(ops::dropout(ctx, x, 0.5, 1).value().raw(), x.value().raw());
  EXPECT_FALSE(ops::drop_path_scales(ctx, 2, 0.5, 1, DType::kFloat32).defined());
  ctx.mode.training = true;
  EXPECT_EQ(ops::dropout(ctx, x, 0, 1).value().raw(), x.value().raw());
  EXPECT_FALSE(ops::drop_path_scales(ctx, 2, 0, 1, DType::kFloat32).defined());
}

TEST(Ops, DropoutDoesNotDependOnMicroBatch) {
  Context ctx;
  ctx.mode.training = true;
  ctx.rng.seed = 4;
  Tensor x = Tensor::full({6, 5, 3}, DType::kFloat32, 1);
  Tensor whole = ops::dropout(ctx, Variable(x), 0.5, 1).value();
  ctx.rng.first_sample = 2;
  Tensor part = ops::dropout(ctx, Variable(x.slice(2, 5)), 0.5, 1).value();
  EXPECT_TRUE(test::same_bits(part, whole.slice(2, 5)));
  Tensor scales = ops::drop_path_scales(ctx, 3, 0.5, 1, DType::kFloat32);
  ctx.rng.first_sample = 0;
  EXPECT_TRUE(
      test::same_bits(scales, ops::drop_path_scales(ctx, 6, 0.5, 1, DType::kFloat32).slice(2, 5)));
}

TEST(Ops, CastsRoundTrip) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  Variable x(test::as(random_tensor({3, 5}, 10), DType::kFloat32), true);
  Variable y = ops::cast(ctx, x, DType::kBFloat16);
  EXPECT_TRUE(test::same_bits(y.value(), test::as(x.value(), DType::kBFloat16)));
  Tensor dy = test::as(random_tensor({3, 5}, 11), DType::kBFloat16);
  tape.backward(y, dy);
  EXPECT_TRUE(test::same_bits(x.grad(), test::as(dy, DType::kFloat32)));
  EXPECT_EQ(ops::cast(ctx, x, DType::kFloat32).value().raw(), x.value().raw());
}

// The MLP keeps its hidden layer once, and only for a backward pass.
TEST(Ops, MlpSavesHiddenLayerOnce) {
  constexpr std::int64_t kRows = 256, kHidden = 1024;
  Variable x(Tensor::zeros({1, kRows, 64}, DType::kFloat32), true);
  Variable w1(Tensor::zeros({kHidden, 64}, DType::kFloat32), true);
  Variable b1(Tensor::zeros({kHidden}, DType::kFloat32), true);
  Variable w2(Tensor::zeros({64, kHidden}, DType::kFloat32), true);
  Variable b2(Tensor::zeros({64}, DType::kFloat32), true);
  constexpr std::size_t kHiddenBytes = kRows * kHidden * 4, kOutBytes = kRows * 64 * 4;
  test::Threads one(1);  // the warm-up allocates its scratch memory once
  Context warm_up;
  ops::mlp_residual(warm_up, x, w1, b1, w2, b2, x, {});
  for (bool recording : {false, true}) {
    Tape tape;
    Context ctx;
    if (recording) ctx.tape = &tape;
    std::size_t before = allocator_stats().bytes_in_use;
    Variable y = ops::mlp_residual(ctx, x, w1, b1, w2, b2, x, {});
    std::size_t kept = allocator_stats().bytes_in_use - before;
    EXPECT_LT(kept, recording ? kHiddenBytes + 2 * kOutBytes : 2 * kOutBytes);
  }
}

TEST(Gather, TableInBfloat16HasAFloat32Gradient) {
  const Variable table(Tensor::full({3, 5}, DType::kBFloat16, 0.5), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable y = ops::take_rows(ctx, table, labels({1, 1, 2, 1}));
  tape.backward(y, Tensor::full(y.shape(), DType::kBFloat16, 1));
  EXPECT_EQ(table.grad().dtype(), DType::kFloat32);
  const std::vector<double> of_row = {0, 3, 1}, got = test::doubles(table.grad());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], of_row[i / 5]) << i;
}

}  // namespace
}  // namespace dtn
