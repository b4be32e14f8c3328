// Computes InstanceNorm, GroupNorm and BatchNorm directly from their definitions, and checks the
// updates of BatchNorm's running statistics.
#include "kernels/optimizer/optimizer.h"
#include "norm_cases.h"

namespace dtn {
namespace {

using test::Doubles;
using test::random_tensor;

constexpr std::int64_t kBatch = 3, kTokens = 11, kChannels = 12;
const TokenGrid kGrid{1, kTokens};
const NormShape kShape{kChannels, 4, 1e-5};

std::unique_ptr<test::BuiltNorm> build(const std::string& type,
                                       std::vector<NormOption> options = {},
                                       const NormShape& shape = kShape) {
  NormConfig config;
  config.type = type;
  config.options = std::move(options);
  return test::build_norm(config, shape, DType::kFloat64);
}

Tensor random_tokens(std::uint32_t stream, std::int64_t tokens = kTokens) {
  return random_tensor({kBatch, tokens, kChannels}, stream, 2, 0.5);
}

Doubles parameter(const test::BuiltNorm& built, const std::string& name) {
  for (const Parameter& p : built.store.parameters()) {
    if (p.name == "norm." + name) return test::doubles(p.variable.value());
  }
  throw Error(name);
}

const Buffer& buffer(const test::BuiltNorm& built, const std::string& name) {
  for (const Buffer& b : built.store.buffers()) {
    if (b.name == "norm." + name) return b;
  }
  throw Error(name);
}

// Normalizes the values of each set of positions with the mean and variance of the set.
Doubles normalized(const Doubles& x, const std::vector<std::vector<std::size_t>>& sets,
                   const Doubles& weight, const Doubles& bias, bool unbiased = false) {
  Doubles y(x.size(), NAN);
  for (const auto& set : sets) {
    const double n = static_cast<double>(set.size());
    double mean = 0, squares = 0;
    for (std::size_t i : set) mean += x[i] / n;
    for (std::size_t i : set) squares += (x[i] - mean) * (x[i] - mean);
    const double rstd = 1 / std::sqrt(squares / (unbiased && n > 1 ? n - 1 : n) + kShape.eps);
    for (std::size_t i : set) {
      y[i] = (x[i] - mean) * rstd * weight[i % kChannels] + bias[i % kChannels];
    }
  }
  return y;
}

// Returns the positions of [B, T, C], grouped by the set number that `set_of` gives for (b, c).
template <class SetOf>
std::vector<std::vector<std::size_t>> places(std::int64_t tokens, std::int64_t sets,
                                             const SetOf& set_of) {
  std::vector<std::vector<std::size_t>> all(static_cast<std::size_t>(sets));
  for (std::int64_t i = 0; i < kBatch * tokens * kChannels; ++i) {
    const std::int64_t b = i / (tokens * kChannels), c = i % kChannels;
    all[static_cast<std::size_t>(set_of(b, c))].push_back(static_cast<std::size_t>(i));
  }
  return all;
}

void expect_forward(test::BuiltNorm& built, const Tensor& x, const Doubles& want, bool training,
                    const std::string& what) {
  Context ctx;
  ctx.mode.training = training;
  const TokenGrid grid{1, x.dim(1)};
  for (bool reference : {false, true}) {
    Variable y = reference ? built.norm->reference(ctx, Variable(x), grid)
                           : built.norm->forward(ctx, Variable(x), grid);
    EXPECT_LE(test::max_abs_difference(test::doubles(y.value()), want), 1e-12)
        << what << (reference ? ", reference" : "");
  }
}

TEST(NormIdentities, InstanceNormNormalizesEachChannelOfSample) {
  for (const char* variant : {"paper", "official"}) {
    for (std::int64_t tokens : {kTokens, std::int64_t{1}}) {
      auto built = build("in", {{"variant", std::string(variant)}});
      Tensor x = random_tokens(1, tokens);
      auto sets = places(tokens, kBatch * kChannels,
                         [](std::int64_t b, std::int64_t c) { return b * kChannels + c; });
      expect_forward(*built, x,
                     normalized(test::doubles(x), sets, parameter(*built, "weight"),
                                parameter(*built, "bias"), std::string(variant) == "official"),
                     true, cat(variant, ", ", tokens, " tokens"));
    }
  }
}

TEST(NormIdentities, GroupNormOfOneGroupIsLayerNormOverSample) {
  auto built = build("gn", {{"groups", 1.0}});
  Tensor x = random_tokens(2);
  auto sets = places(kTokens, kBatch, [](std::int64_t b, std::int64_t) { return b; });
  expect_forward(
      *built, x,
      normalized(test::doubles(x), sets, parameter(*built, "weight"), parameter(*built, "bias")),
      true, "one group");
}

TEST(NormIdentities, GroupNormHeadsOptionGroupsChannelsOfHead) {
  Tensor x = random_tokens(3);
  for (const OptionValue& groups :
       {OptionValue(std::string("heads")), OptionValue(4.0), OptionValue(std::int64_t{4})}) {
    auto built = build("gn", {{"groups", groups}});
    auto sets = places(kTokens, kBatch * 4,
                       [](std::int64_t b, std::int64_t c) { return b * 4 + c / (kChannels / 4); });
    expect_forward(
        *built, x,
        normalized(test::doubles(x), sets, parameter(*built, "weight"), parameter(*built, "bias")),
        true, "heads");
  }
}

// GroupNorm with one group per channel has the bits of InstanceNorm.
TEST(NormIdentities, GroupNormOfSingleChannelsIsInstanceNorm) {
  auto gn = build("gn", {{"groups", static_cast<double>(kChannels)}}), in = build("in");
  Context ctx;
  Variable x(random_tokens(4));
  EXPECT_TRUE(test::same_bits(gn->norm->forward(ctx, x, kGrid).value(),
                              in->norm->forward(ctx, x, kGrid).value()));
}

TEST(NormIdentities, GroupsMustDivideChannels) {
  for (const OptionValue& groups : {OptionValue(5.0), OptionValue(2.5), OptionValue(24.0)}) {
    EXPECT_THROW(build("gn", {{"groups", groups}}), ConfigError);
  }
  EXPECT_THROW(build("gn", {}, {kChannels, 5, 1e-5}), ConfigError);
}

TEST(NormIdentities, BatchNormTrainsWithBatchStatistics) {
  auto built = build("bn");
  Tensor x = random_tokens(5);
  auto sets = places(kTokens, kChannels, [](std::int64_t, std::int64_t c) { return c; });
  expect_forward(
      *built, x,
      normalized(test::doubles(x), sets, parameter(*built, "weight"), parameter(*built, "bias")),
      true, "training");
}

// In evaluation y = a x + b and dx = a dy, with a and b from the running statistics.
TEST(NormIdentities, BatchNormEvaluatesAsAffineMap) {
  auto built = build("bn");
  const Doubles mean = test::doubles(buffer(*built, "running_mean").value);
  const Doubles variance = test::doubles(buffer(*built, "running_var").value);
  const Doubles weight = parameter(*built, "weight"), bias = parameter(*built, "bias");
  Tensor x = random_tokens(6), dy = random_tokens(7);
  Doubles want = test::doubles(x), want_dx = test::doubles(dy);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::size_t c = i % kChannels;
    const double a = weight[c] / std::sqrt(variance[c] + kShape.eps);
    want[i] = a * want[i] + (bias[c] - a * mean[c]);
    want_dx[i] *= a;
  }
  expect_forward(*built, x, want, false, "evaluation");
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  Variable input(x, true);
  tape.backward(built->norm->forward(ctx, input, kGrid), dy);
  EXPECT_LE(test::max_abs_difference(test::doubles(input.grad()), want_dx), 1e-12);
}

// --- running statistics -------------------------------------------------------------------------

struct Running {
  Doubles mean, variance;
};

// Updates the statistics by one batch, as torch.nn.BatchNorm1d documents: with the unbiased
// variance.
Running moved(const Running& from, const Tensor& x, double momentum) {
  Running to = from;
  const Doubles values = test::doubles(x);
  const double n = static_cast<double>(values.size()) / kChannels;
  for (std::size_t c = 0; c < kChannels; ++c) {
    double mean = 0, squares = 0;
    for (std::size_t i = c; i < values.size(); i += kChannels) mean += values[i] / n;
    for (std::size_t i = c; i < values.size(); i += kChannels) {
      squares += (values[i] - mean) * (values[i] - mean);
    }
    to.mean[c] = (1 - momentum) * from.mean[c] + momentum * mean;
    to.variance[c] = (1 - momentum) * from.variance[c] + momentum * squares / (n - 1);
  }
  return to;
}

Running running(const test::BuiltNorm& built, bool next = false) {
  const Buffer &mean = buffer(built, "running_mean"), &variance = buffer(built, "running_var");
  return {test::doubles(next ? mean.next : mean.value),
          test::doubles(next ? variance.next : variance.value)};
}

void expect_near(const Running& got, const Running& want, const char* when) {
  EXPECT_LE(test::max_abs_difference(got.mean, want.mean), 1e-13) << when;
  EXPECT_LE(test::max_abs_difference(got.variance, want.variance), 1e-13) << when;
}

TEST(RunningStatistics, HavePyTorchNamesAndInitialValues) {
  ParameterStore store;
  NormConfig config;
  config.type = "bn";
  make_normalizer(config, kShape, {store, "blocks.0.norm1"});
  store.allocate();
  store.initialize(0);
  ASSERT_EQ(store.buffers().size(), 2u);
  EXPECT_EQ(store.buffers()[0].name, "blocks.0.norm1.running_mean");
  EXPECT_EQ(store.buffers()[1].name, "blocks.0.norm1.running_var");
  EXPECT_EQ(test::doubles(store.buffers()[0].value), Doubles(kChannels, 0));
  EXPECT_EQ(test::doubles(store.buffers()[1].value), Doubles(kChannels, 1));
}

TEST(RunningStatistics, UpdatePerMicroBatchAndCommitWithStep) {
  for (double momentum : {0.1, 0.0, 1.0}) {
    auto built = build("bn", {{"momentum", momentum}});
    const Running start = running(*built);
    Context train, evaluate;
    train.mode.training = true;
    Tensor first = random_tokens(8), second = random_tokens(9);
    const Tensor probe = random_tokens(10);
    auto evaluated = [&] {
      return test::doubles(built->norm->forward(evaluate, Variable(probe), kGrid).value());
    };
    const Doubles before = evaluated();
    built->norm->forward(train, Variable(first), kGrid);
    built->norm->forward(train, Variable(second), kGrid);
    EXPECT_EQ(evaluated(), before) << "nothing moves before the step is settled";
    expect_near(running(*built), start, "before the step is settled");
    const Running want = moved(moved(start, first, momentum), second, momentum);
    expect_near(running(*built, true), want, "next");
    built->store.commit_buffers();
    expect_near(running(*built), want, "settled");
    EXPECT_EQ(evaluated() == before, momentum == 0);
  }
}

TEST(RunningStatistics, AreKeptWhenStepIsSkipped) {
  auto built = build("bn");
  const Running start = running(*built);
  Context train;
  train.mode.training = true;
  built->norm->forward(
      train, Variable(Tensor::full({kBatch, kTokens, kChannels}, DType::kFloat64, NAN)), kGrid);
  UpdateState left_out;
  left_out.finite = 0;
  built->store.commit_buffers(&left_out);
  expect_near(running(*built), start, "left out");
  expect_near(running(*built, true), start, "left out, next");
}

// A checkpointed block runs twice and updates the statistics once. Evaluation and the reference
// never update them.
TEST(RunningStatistics, UpdateOnceUnderCheckpointAndNotInEvaluation) {
  auto built = build("bn");
  const Running start = running(*built);
  Context evaluate;
  Tensor x = random_tokens(11);
  built->norm->forward(evaluate, Variable(x), kGrid);
  Tape tape;
  Context train;
  train.mode.training = true;
  train.tape = &tape;
  built->norm->reference(train, Variable(x), kGrid);
  expect_near(running(*built, true), start, "evaluation and reference");
  Variable input(x, true);
  Variable y = checkpoint(train, input, [&](Context& ctx, const Variable& v) {
    return built->norm->forward(ctx, v, kGrid);
  });
  tape.backward(y, random_tokens(12));
  EXPECT_GT(test::max_abs(test::doubles(input.grad())), 0);
  expect_near(running(*built, true), moved(start, x, 0.1), "checkpoint");
}

}  // namespace
}  // namespace dtn
