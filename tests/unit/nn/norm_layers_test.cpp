// Layers with a normalizer at one end. In evaluation BatchNorm is folded into the weights.
#include "dtn/nn/norm_layers.h"

#include <algorithm>

#include "dtn/nn/bottleneck.h"
#include "dtn/ops/activation.h"
#include "tensors.h"

namespace dtn {
namespace {

using test::doubles;
using test::random_tensor;

NormConfig norm_of(const char* type) {
  NormConfig c;
  c.type = type;
  return c;
}

// Sets parameters and statistics to values as after training.
void settle(ParameterStore& store, DType dtype) {
  store.allocate(dtype);
  store.initialize(3);
  std::uint32_t stream = 60;
  for (Parameter& p : store.parameters()) {
    const double mean = p.name.ends_with("bn.weight") ? 1 : 0;
    test::assign(p.variable.value(), random_tensor(p.shape, stream++, 0.5, mean));
  }
  for (const Buffer& b : store.buffers()) {
    const double mean = b.init == InitKind::kOnes ? 2 : 0;
    test::assign(b.value, random_tensor(b.shape, stream++, 1.5, mean));
  }
  store.restart_buffers();
}

Context context_of(DType dtype, bool training) {
  Context ctx;
  ctx.mode.compute = dtype;
  ctx.mode.training = training;
  return ctx;
}

// Compares forward() of a layer with its reference, which applies the normalizer separately.
template <class Make, class Run>
void check_layer(Make make, Run run, const Shape& input) {
  for (const char* type : {"bn", "ln", "in"}) {
    for (bool training : {false, true}) {
      for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
        SCOPED_TRACE(cat(type, training ? ", training, " : ", ", name_of(dtype)));
        ParameterStore store;
        const auto layer = make(Scope(store), norm_of(type));
        settle(store, dtype);
        Context ctx = context_of(dtype, training);
        const Variable x(test::as(random_tensor(input, 9), dtype));
        const auto got = doubles(run(ctx, layer, x, false).value());
        const auto want = doubles(run(ctx, layer, x, true).value());
        const double tolerance = dtype == DType::kFloat64 ? 1e-13 : 1e-5;
        EXPECT_LE(test::max_abs_difference(got, want), tolerance * test::max_abs(want));
        EXPECT_GT(test::max_abs(want), 0.1);
      }
    }
  }
}

TEST(NormLayers, ConvolutionFoldsBatchNorm) {
  check_layer(
      [](const Scope& scope, const NormConfig& norm) {
        return ConvNorm(scope / "c", scope / "bn", 6,
                        {.kernel = 3, .stride = 2, .padding = 1, .groups = 2},
                        {norm, {8, 1, 1e-5}});
      },
      [](Context& ctx, const ConvNorm& layer, const Variable& x, bool reference) {
        const Tokens tokens{x, {5, 4}};
        const Tokens y = reference ? layer.reference(ctx, tokens) : layer.forward(ctx, tokens);
        EXPECT_EQ(y.grid, (TokenGrid{3, 2}));
        return y.x;
      },
      {3, 20, 6});
}

TEST(NormLayers, LinearLayerFoldsFollowingBatchNorm) {
  check_layer(
      [](const Scope& scope, const NormConfig& norm) {
        return LinearNorm(scope / "c", scope / "bn", 6, {norm, {8, 1, 1e-5}});
      },
      [](Context& ctx, const LinearNorm& layer, const Variable& x, bool reference) {
        const TokenGrid grid{5, 4};
        return reference ? layer.reference(ctx, x, grid) : layer.forward(ctx, x, grid);
      },
      {3, 20, 6});
}

TEST(NormLayers, LinearLayerFoldsPrecedingBatchNorm) {
  for (bool training : {false, true}) {
    ParameterStore store;
    const NormLinear layer(Scope(store) / "bn", Scope(store) / "l", norm_of("bn"), {6, 1, 1e-5}, 5);
    settle(store, DType::kFloat32);
    Context ctx = context_of(DType::kFloat32, training);
    const Variable x(test::as(random_tensor({4, 6}, 9), DType::kFloat32));
    const auto got = doubles(layer.forward(ctx, x).value());
    const auto want = doubles(layer.reference(ctx, x).value());
    EXPECT_LE(test::max_abs_difference(got, want), 1e-5 * test::max_abs(want));
  }
}

// Saved values are those of the separate parts, before and after folding.
TEST(NormLayers, FoldingDoesNotChangeSavedValues) {
  ParameterStore store;
  const LinearNorm layer(Scope(store) / "c", Scope(store) / "bn", 6, {norm_of("bn"), {8, 1, 1e-5}});
  settle(store, DType::kFloat32);
  const Tensor before = store.values().clone();
  Context ctx;
  layer.forward(ctx, Variable(test::as(random_tensor({2, 3, 6}, 9), DType::kFloat32)), {1, 3});
  EXPECT_TRUE(test::same_bits(before, store.values()));
  std::vector<std::string> names;
  for (const Parameter& p : store.parameters()) names.push_back(p.name);
  for (const Buffer& b : store.buffers()) names.push_back(b.name);
  EXPECT_EQ(names, (std::vector<std::string>{"c.weight", "bn.weight", "bn.bias", "bn.running_mean",
                                             "bn.running_var"}));
}

TEST(NormLayers, InitializeAsConfigured) {
  ParameterStore store;
  const Scope scope(store);
  const LinearNorm zero(scope / "zero", scope / "zero.bn", 16, {norm_of("bn"), {8, 1, 1e-5}, true});
  const LinearNorm one(scope / "one", scope / "one.bn", 16, {norm_of("bn"), {8, 1, 1e-5}});
  store.allocate();
  store.initialize(1);
  const auto largest = [&](const char* name) {
    return test::max_abs(doubles(store.find(name)->variable.value()));
  };
  EXPECT_EQ(largest("zero.bn.weight"), 0);
  EXPECT_EQ(largest("one.bn.weight"), 1);
  EXPECT_LE(largest("one.weight"), 0.25);  // 1 / sqrt(16)
  EXPECT_GT(largest("one.weight"), 0.2);
  EXPECT_EQ(store.find("one.weight")->decay, Decay::kYes);
  EXPECT_EQ(store.find("one.bn.weight")->decay, Decay::kNo);
}

// Factors computed by hand, with one inner channel and weights of one.
TEST(SqueezeExcitation, MatchesFormula) {
  ParameterStore store;
  const SqueezeExcitation layer(Scope(store), 2, 1);
  store.allocate(DType::kFloat64);
  store.initialize(1);
  for (Parameter& p : store.parameters()) {
    test::assign(p.variable.value(), Tensor::full(p.shape, DType::kFloat64, 1));
  }
  Context ctx;
  ctx.mode.compute = DType::kFloat64;
  const Variable x(test::from_doubles({1, -2, 3, 5}, {1, 2, 2}, DType::kFloat64));
  const double inside = (1 + 3) / 2.0 + (-2 + 5) / 2.0 + 1;
  const double factor = 1 / (1 + std::exp(-(inside + 1)));
  const auto y = doubles(layer.forward(ctx, x).value());
  const test::Doubles want = {factor, -2 * factor, 3 * factor, 5 * factor};
  EXPECT_LE(test::max_abs_difference(y, want), 1e-14);
  EXPECT_EQ(store.find("fc1.weight")->shape, Shape({1, 2, 1, 1}));
}

// Returns the output, the gradients of input and parameters, and the running statistics.
std::vector<std::vector<double>> run_relu(const char* type, bool training, bool fused) {
  ParameterStore store;
  const ConvNorm layer(Scope(store) / "c", Scope(store) / "bn", 6, {.kernel = 3, .padding = 1},
                       {norm_of(type), {8, 2, 1e-5}});
  settle(store, DType::kFloat32);
  Tape tape;
  Context ctx = context_of(DType::kFloat32, training);
  ctx.tape = &tape;
  const Variable x(test::as(random_tensor({3, 20, 6}, 9), DType::kFloat32), true);
  const Tokens tokens{x, {5, 4}};
  const Variable y =
      fused ? layer.forward_relu(ctx, tokens).x : ops::relu(ctx, layer.forward(ctx, tokens).x);
  tape.backward(y, test::as(random_tensor(y.shape(), 10), DType::kFloat32));
  std::vector<std::vector<double>> results{doubles(y.value()), doubles(x.grad()),
                                           doubles(store.gradients())};
  for (const Buffer& b : store.buffers()) results.push_back(doubles(b.next));
  return results;
}

TEST(NormLayers, ReluIsThatOfTheResult) {
  for (const char* type : {"bn", "in", "gn", "ln", "none"}) {
    for (bool training : {false, true}) {
      SCOPED_TRACE(cat(type, training ? ", training" : ""));
      const auto got = run_relu(type, training, true), want = run_relu(type, training, false);
      ASSERT_EQ(got.size(), want.size());
      EXPECT_EQ(got[0], want[0]);
      EXPECT_EQ(std::ranges::min(got[0]), 0);
      for (std::size_t i = 1; i < got.size(); ++i) EXPECT_EQ(got[i], want[i]) << i;
    }
  }
}

}  // namespace
}  // namespace dtn
