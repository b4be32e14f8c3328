// Conditional normalizers beyond their values: initialization, equal normalizers, errors, and
// updates of running statistics.
#include "conditional_cases.h"
#include "dtn/ops/norm.h"

namespace dtn {
namespace {

using test::ConditionalCase;
using test::doubles;
using test::Doubles;
using test::random_tensor;

constexpr std::int64_t kBatch = 3, kChannels = 10;
const TokenGrid kGrid{3, 4};
const Shape kShape = {kBatch, kGrid.tokens(), kChannels};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

void expect_near(const Variable& got, const Variable& want, double bound, const std::string& what) {
  EXPECT_LE(test::max_abs_difference(doubles(got.value()), doubles(want.value())), bound) << what;
}

Variable ones(const Shape& shape) { return Variable(Tensor::full(shape, DType::kFloat64, 1)); }
Variable zeros(const Shape& shape) { return Variable(Tensor::zeros(shape, DType::kFloat64)); }

// (x - mean) / sqrt(var + eps), with the moments of the values that share a key.
Doubles standardized(const Tensor& x, double eps, const std::function<int(int b, int c)>& key) {
  Doubles in = doubles(x), out(in.size());
  const int rows = static_cast<int>(x.dim(1)), channels = static_cast<int>(x.dim(2));
  std::vector<double> count(1000), sum(1000), squares(1000);
  auto each = [&](auto&& f) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      const int c = static_cast<int>(i) % channels, b = static_cast<int>(i) / channels / rows;
      f(i, static_cast<std::size_t>(key(b, c)));
    }
  };
  each([&](std::size_t i, std::size_t k) { ++count[k], sum[k] += in[i]; });
  each([&](std::size_t i, std::size_t k) { squares[k] += std::pow(in[i] - sum[k] / count[k], 2); });
  each([&](std::size_t i, std::size_t k) {
    out[i] = (in[i] - sum[k] / count[k]) / std::sqrt(squares[k] / count[k] + eps);
  });
  return out;
}

// A layer in a separate store, with its initial parameters in float64.
template <class Layer, class Options>
struct Fresh {
  ParameterStore store;
  Layer norm;
  explicit Fresh(const Options& options) : norm({store, "norm"}, options) {
    store.allocate(DType::kFloat64);
    store.initialize(1);
  }
  Tensor value(const char* name) { return store.find(name)->variable.value(); }
};
template <class Layer>
using Of = Fresh<Layer, typename Layer::Options>;

TEST(AdaptiveLayerNorm, StartsAsLayerNormWithClosedGate) {
  Of<AdaptiveLayerNorm> f({.channels = kChannels, .condition = 4, .gate = true});
  Context ctx;
  Variable x(random_tensor(kShape, 1, 2)), branch(random_tensor(kShape, 3));
  const Condition c = Condition::of_vector(Variable(random_tensor({kBatch, 4}, 2)));
  Variable layer_norm = ops::layer_norm(ctx, x, ones({kChannels}), zeros({kChannels}), 1e-6);
  expect_near(f.norm.forward(ctx, x, kGrid, c), layer_norm, 1e-13, "at its start");
  Variable gated = ops::gated_add(ctx, x, f.norm.gate(ctx, c), branch);
  EXPECT_TRUE(test::same_bits(gated.value(), x.value())) << "a closed gate";
  Of<AdaptiveLayerNorm> plain({.channels = kChannels, .condition = 4});
  EXPECT_THROW(plain.norm.gate(ctx, c), Error);
  EXPECT_EQ(f.store.find("norm.modulation.weight")->shape, Shape({2 * kChannels, 4}));
  EXPECT_EQ(f.store.find("norm.gate.weight")->shape, Shape({kChannels, 4}));
}

// The shifts come first, then the amounts added to a gain of 1.
TEST(AdaptiveLayerNorm, UsesReleasedOrderOfShiftAndGain) {
  Of<AdaptiveLayerNorm> f({.channels = kChannels, .condition = 4});
  Tensor bias = f.value("norm.modulation.bias");
  for (std::int64_t c = 0; c < kChannels; ++c) bias.data<double>()[c] = 3;
  for (std::int64_t c = kChannels; c < 2 * kChannels; ++c) bias.data<double>()[c] = -0.5;
  Context ctx;
  Variable x(random_tensor(kShape, 1, 2));
  Variable y = f.norm.forward(ctx, x, kGrid, Condition::of_vector(zeros({kBatch, 4})));
  Variable plain = ops::layer_norm(ctx, x, ones({kChannels}), zeros({kChannels}), 1e-6);
  Doubles want = doubles(plain.value());
  for (double& v : want) v = 0.5 * v + 3;
  EXPECT_LE(test::max_abs_difference(doubles(y.value()), want), 1e-13);
}

// A network with zero weights gives gain 1 and shift 0.
TEST(DynamicLayerNorm, ZeroModulationIsLayerNorm) {
  Of<DynamicLayerNorm> f({.channels = kChannels});
  Tensor weight = f.value("norm.modulation.weight");
  EXPECT_GT(test::max_abs(doubles(weight)), 0);
  weight.zero();
  Context ctx;
  Variable x(random_tensor(kShape, 1, 2));
  expect_near(f.norm.forward(ctx, x, kGrid),
              ops::layer_norm(ctx, x, ones({kChannels}), zeros({kChannels}), 1e-5), 1e-13, "dln");
}

TEST(ConditionalInstanceNorm, SelectsAndMixesStyles) {
  Of<ConditionalInstanceNorm> f({.channels = kChannels, .styles = 4});
  Context ctx;
  Variable x(random_tensor(kShape, 1, 2));
  const Condition chosen =
      Condition::of_index(Tensor::from(std::vector<std::int64_t>{2, 0, 2}, {kBatch}));
  Doubles instances = standardized(
      x.value(), 1e-5, [](int b, int c) { return b * static_cast<int>(kChannels) + c; });
  EXPECT_LE(
      test::max_abs_difference(doubles(f.norm.forward(ctx, x, kGrid, chosen).value()), instances),
      1e-12)
      << "every style starts as InstanceNorm";
  for (const char* name : {"norm.weight", "norm.bias"}) {
    test::assign(f.value(name), random_tensor({4, kChannels}, 4));
  }
  Tensor one_hot = Tensor::zeros({kBatch, 4}, DType::kFloat64);
  for (std::int64_t b = 0; b < kBatch; ++b) one_hot.data<double>()[b * 4 + (b == 1 ? 0 : 2)] = 1;
  expect_near(f.norm.forward(ctx, x, kGrid, Condition::of_vector(Variable(one_hot))),
              f.norm.forward(ctx, x, kGrid, chosen), 1e-13, "an index is a mixture of one");
}

// The output has the moments of the style. A style with the input's moments changes nothing.
TEST(AdaptiveInstanceNorm, OutputHasMomentsOfStyle) {
  AdaptiveInstanceNorm norm({.channels = kChannels, .eps = 1e-12});
  Context ctx;
  Variable x(random_tensor(kShape, 1, 2)), style(random_tensor({kBatch, 7, kChannels}, 2, 3, 1));
  Variable y = norm.forward(ctx, x, kGrid, Condition::of_tokens(style));
  auto got = ops::channel_moments(ctx, y, 1e-12), want = ops::channel_moments(ctx, style, 1e-12);
  expect_near(got.mean, want.mean, 1e-9, "mean");
  expect_near(got.std, want.std, 1e-9, "standard deviation");
  expect_near(norm.forward(ctx, x, kGrid, Condition::of_tokens(x)), x, 1e-12, "its own style");
}

// If the condition changes nothing, the results and the running statistics are those of BatchNorm.
TEST(ConditionalBatchNorm, UpdatesAndUsesRunningStatistics) {
  Of<ConditionalBatchNorm> f({.channels = kChannels, .condition = 4});
  f.value("norm.modulation.weight").zero();
  Tensor x = random_tensor(kShape, 1, 2, 5);
  const Condition c = Condition::of_vector(Variable(random_tensor({kBatch, 4}, 2)));
  Context training;
  training.mode.training = true;
  Variable y = f.norm.forward(training, Variable(x), kGrid, c);
  Doubles want = standardized(x, 1e-5, [](int, int channel) { return channel; });
  EXPECT_LE(test::max_abs_difference(doubles(y.value()), want), 1e-12);

  auto moments = ops::channel_moments(training, Variable(x.reshape({1, -1, kChannels})), 0);
  const double rows = static_cast<double>(kBatch * kGrid.tokens());
  const std::deque<Buffer>& buffers = f.store.buffers();
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0].name, "norm.running_mean");
  EXPECT_EQ(buffers[1].name, "norm.running_var");
  for (std::int64_t i = 0; i < kChannels; ++i) {
    EXPECT_NEAR(test::element(buffers[0].next, i), 0.1 * test::element(moments.mean.value(), i),
                1e-12);
    const double std = test::element(moments.std.value(), i);
    EXPECT_NEAR(test::element(buffers[1].next, i), 0.9 + 0.1 * std * std * rows / (rows - 1),
                1e-12);
    EXPECT_EQ(test::element(buffers[0].value, i), 0) << "before the step is settled";
  }
  Tensor once = buffers[0].next.clone();
  Context again = training;
  again.mode.recompute = true;
  f.norm.forward(again, Variable(x), kGrid, c);
  EXPECT_TRUE(test::same_bits(buffers[0].next, once)) << "a block that runs again moves nothing";
  f.store.commit_buffers();
  y = f.norm.forward(training, Variable(x), kGrid, c);
  Context evaluation;
  Variable z = f.norm.forward(evaluation, Variable(x), kGrid, c);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double mean = test::element(buffers[0].value, i % kChannels);
    const double var = test::element(buffers[1].value, i % kChannels);
    EXPECT_NEAR(test::element(z.value(), i), (test::element(x, i) - mean) / std::sqrt(var + 1e-5),
                1e-12);
  }
}

TEST(SpatiallyAdaptiveNorm, ZeroModulationIsBaseNorm) {
  for (auto base : {SpatiallyAdaptiveNorm::Base::kBatch, SpatiallyAdaptiveNorm::Base::kInstance}) {
    const bool batch = base == SpatiallyAdaptiveNorm::Base::kBatch;
    Of<SpatiallyAdaptiveNorm> f({.channels = kChannels, .condition = 4, .hidden = 3, .base = base});
    f.value("norm.modulation.weight").zero();
    Tensor x = random_tensor(kShape, 1, 2, 5);
    const Condition c =
        Condition::of_tokens(Variable(random_tensor({kBatch, kGrid.tokens(), 4}, 2)));
    Context training;
    training.mode.training = true;
    Variable y = f.norm.forward(training, Variable(x), kGrid, c);
    Doubles want = standardized(x, 1e-5, [&](int b, int channel) {
      return (batch ? 0 : b * static_cast<int>(kChannels)) + channel;
    });
    EXPECT_LE(test::max_abs_difference(doubles(y.value()), want), 1e-12);
    ASSERT_EQ(f.store.buffers().size(), batch ? 2u : 0u);
    if (!batch) continue;
    const Buffer& mean = f.store.buffers()[0];
    EXPECT_GT(test::max_abs(doubles(mean.next)), 0.1);
    Tensor once = mean.next.clone();
    training.mode.recompute = true;
    f.norm.forward(training, Variable(x), kGrid, c);
    EXPECT_TRUE(test::same_bits(mean.next, once)) << "a block that runs again moves nothing";
  }
}

// The result of a token depends on the map within two tokens (two 3 x 3 convolutions), but not
// across the edge of the grid.
TEST(SpatiallyAdaptiveNorm, RespectsGridNeighborhood) {
  Of<SpatiallyAdaptiveNorm> f({.channels = 2, .condition = 1, .hidden = 2});
  for (Parameter& p : f.store.parameters()) {
    test::assign(p.variable.value(), random_tensor(p.shape, 5, 0.5, 0.6));  // relu passes all
  }
  const TokenGrid grid{4, 5};
  Context ctx;
  Variable x(random_tensor({1, 20, 2}, 6));
  auto of_map = [&](std::int64_t lit) {
    Tensor map = Tensor::zeros({1, 20, 1}, DType::kFloat64);
    if (lit >= 0) map.data<double>()[lit] = 1;
    return doubles(f.norm.forward(ctx, x, grid, Condition::of_tokens(Variable(map))).value());
  };
  const Doubles dark = of_map(-1);
  for (std::int64_t lit : {0, 4, 12}) {
    const Doubles y = of_map(lit);
    for (std::int64_t t = 0; t < 20; ++t) {
      const bool near = std::abs(t / 5 - lit / 5) <= 2 && std::abs(t % 5 - lit % 5) <= 2;
      EXPECT_EQ(y[static_cast<std::size_t>(2 * t)] != dark[static_cast<std::size_t>(2 * t)], near)
          << "token " << t << ", light at " << lit;
    }
  }
}

TEST(PositionalNorm, WithWeightAndBiasIsLayerNorm) {
  Context ctx;
  Variable x(random_tensor(kShape, 1, 2, 3)), weight(random_tensor({kChannels}, 2)),
      bias(random_tensor({kChannels}, 3));
  auto [y, mean, std] = PositionalNorm(1e-3).forward(ctx, x);
  Doubles affine = doubles(y.value());
  for (std::size_t i = 0; i < affine.size(); ++i) {
    const auto c = static_cast<std::int64_t>(i) % kChannels;
    affine[i] = affine[i] * test::element(weight.value(), c) + test::element(bias.value(), c);
  }
  Variable layer_norm = ops::layer_norm(ctx, x, weight, bias, 1e-3);
  EXPECT_LE(test::max_abs_difference(affine, doubles(layer_norm.value())), 1e-13);
  EXPECT_EQ(mean.shape(), Shape({kBatch, kGrid.tokens()}));
  // The shortcut inverts it, and a dynamic shortcut with zero weights changes nothing.
  expect_near(moment_shortcut(ctx, y, mean, std), x, 1e-13, "its own moments");
  Of<DynamicMomentShortcut> f({.channels = kChannels});
  f.value("norm.modulation.weight").zero();
  expect_near(f.norm.forward(ctx, x, kGrid, mean, std), x, 0, "dynamic shortcut");
  EXPECT_THROW(f.norm.forward(ctx, x, kGrid, mean, Variable(std.value().reshape({-1}))), Error);
}

TEST(PositionalNorm, ReturnsFloat32MomentsForBFloat16) {
  Context ctx;
  auto [y, mean, std] =
      PositionalNorm().forward(ctx, Variable(test::as(random_tensor(kShape, 1), DType::kBFloat16)));
  EXPECT_EQ(y.dtype(), DType::kBFloat16);
  EXPECT_EQ(mean.dtype(), DType::kFloat32);
  EXPECT_EQ(std.dtype(), DType::kFloat32);
}

class ConditionalNorms : public testing::TestWithParam<ConditionalCase> {};

// Each layer's error names the given and the expected condition.
TEST_P(ConditionalNorms, ErrorsNameGivenAndExpectedCondition) {
  const ConditionalCase& c = GetParam();
  auto built = test::build_conditional(c, kChannels, DType::kFloat64);
  Context ctx;
  Variable x(random_tensor(kShape, 1));
  Tensor values = test::condition_values(c, kBatch, kGrid.tokens(), kChannels);
  Variable good = values.defined() ? Variable(values) : Variable();
  const Condition right = test::make_condition(c, kBatch, good);
  auto forward = [&](const Variable& input, const Condition& condition) {
    return error_of([&] { built->norm->forward(ctx, input, kGrid, condition); });
  };
  EXPECT_EQ(forward(x, right), "");
  for (const Shape& shape : {Shape({kBatch, 11, kChannels}), Shape({kBatch, 12, kChannels + 1}),
                             Shape({kBatch * 12, kChannels})}) {
    const std::string message = forward(Variable(random_tensor(shape, 2)), right);
    EXPECT_NE(message.find("input " + to_string(shape)), std::string::npos) << message;
  }
  Condition both = right;
  both.vector = both.vector.defined() ? both.vector : zeros({kBatch, test::kConditionSize});
  both.tokens = zeros({kBatch, kGrid.tokens(), test::kConditionSize});
  const std::vector<std::pair<Condition, std::string>> wrong = {
      {both, "more than one"},
      {Condition::of_vector(zeros({kBatch, 77})), "[3, 77]"},
      {Condition::of_vector(zeros({kBatch + 1, test::kConditionSize})), "[4, 5]"},
      {Condition::of_tokens(zeros({kBatch, kGrid.tokens(), 77})), "[3, 12, 77]"},
      {Condition::of_tokens(zeros({kBatch + 1, 12, test::kConditionSize})), "[4, 12, 5]"},
      {Condition::of_index(Tensor::zeros({kBatch + 1}, DType::kInt64)), "int64 [4]"},
      {Condition::of_index(Tensor::zeros({kBatch}, DType::kFloat32)), "float32 [3]"},
  };
  for (const auto& [condition, part] : wrong) {
    const std::string message = forward(x, condition);
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
    EXPECT_NE(message.find("; expected: "), std::string::npos) << message;
    EXPECT_NE(error_of([&, &bad = condition] { built->norm->reference(ctx, x, kGrid, bad); }), "");
  }
  if (c.kind != test::ConditionKind::kNone) {
    EXPECT_NE(forward(x, {}).find("the condition is none; expected"), std::string::npos);
  }
}

// Linear maps have weight decay; gains and biases do not.
TEST_P(ConditionalNorms, DecaysLinearMapsOnly) {
  auto built = test::build_conditional(GetParam(), kChannels, DType::kFloat32);
  for (const Parameter& p : built->store.parameters()) {
    const bool linear = p.name.ends_with(".weight") && p.name != "norm.weight";
    EXPECT_EQ(p.decay == Decay::kYes, linear) << p.name;
    EXPECT_TRUE(p.name.starts_with("norm.")) << p.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConditionalNorms, testing::ValuesIn(test::conditional_cases()),
                         [](const auto& each) { return each.param.name; });

TEST(ConditionalInstanceNorm, ErrorNamesInvalidStyleIndex) {
  Of<ConditionalInstanceNorm> f({.channels = kChannels, .styles = 4});
  Context ctx;
  Variable x(random_tensor(kShape, 1));
  for (std::int64_t bad : {-1, 4}) {
    const Condition c =
        Condition::of_index(Tensor::from(std::vector<std::int64_t>{0, bad, 1}, {kBatch}));
    const std::string message = error_of([&] { f.norm.forward(ctx, x, kGrid, c); });
    EXPECT_NE(message.find(cat("index ", bad, " of sample 1 is outside [0, 4)")), std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace dtn
