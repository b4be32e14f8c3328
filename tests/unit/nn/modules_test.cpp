// Modules without a separate test file: convolutions and the gains of residual branches.
#include <numeric>

#include "dtn/nn/block.h"
#include "dtn/nn/conv2d.h"
#include "tensors.h"

namespace dtn {
namespace {

using test::random_tensor;

TEST(Conv2d, HasPyTorchParameters) {
  ParameterStore store;
  const Conv2d plain(Scope(store) / "stem", 3, 8, {.kernel = {4, 2}, .stride = {4, 2}});
  const Conv2d depthwise(Scope(store) / "dw", 8, 8,
                         {.kernel = {3, 3}, .padding = {1, 1}, .groups = 8, .bias = false});
  EXPECT_EQ(plain.weight->name, "stem.weight");
  EXPECT_EQ(plain.weight->shape, Shape({8, 3, 4, 2}));
  EXPECT_EQ(plain.weight->decay, Decay::kYes);
  EXPECT_EQ(plain.bias->name, "stem.bias");
  EXPECT_EQ(plain.bias->decay, Decay::kNo);
  EXPECT_EQ(depthwise.weight->shape, Shape({8, 1, 3, 3}));
  EXPECT_EQ(depthwise.bias, nullptr);
  EXPECT_THROW(Conv2d(Scope(store) / "odd", 3, 8, {.kernel = {1, 1}, .groups = 2}), Error);

  store.allocate(DType::kFloat64);
  store.initialize(3);
  double squares = 0;
  for (double w : test::doubles(plain.weight->variable.value())) squares += w * w;
  EXPECT_NEAR(squares / (8 * 3 * 4 * 2), 1.0 / (3 * 3 * 4 * 2), 0.004);

  const Variable x(random_tensor({2, 3, 8, 8}, 1));
  Context ctx;
  const Variable y = depthwise.forward(ctx, plain.forward(ctx, x));
  EXPECT_EQ(y.shape(), Shape({2, 8, 2, 4}));
  const Variable by_hand =
      primitive::conv2d(ctx, x, plain.weight->variable, plain.bias->variable, {.stride = {4, 2}});
  EXPECT_LE(test::max_abs_difference(test::doubles(by_hand.value()),
                                     test::doubles(plain.forward(ctx, x).value())),
            1e-14);
}

TEST(Conv2d, TakesInputsOfAnyType) {
  for (DType parameters : {DType::kFloat32, DType::kFloat64}) {
    for (DType inputs : {DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      ParameterStore store;
      const Conv2d conv(Scope(store) / "conv", 3, 4, {.kernel = {1, 1}});
      store.allocate(parameters);
      Tensor weight = conv.weight->variable.value(), bias = conv.bias->variable.value();
      weight.copy_from(Tensor::full(weight.shape(), parameters, 2));
      bias.copy_from(Tensor::full(bias.shape(), parameters, 1));
      Tape tape;
      Context ctx;
      ctx.tape = &tape;
      const Variable x(Tensor::full({2, 3, 2, 2}, inputs, 0.5));
      const Variable y = conv.forward(ctx, x);
      EXPECT_EQ(y.dtype(), inputs);
      for (double v : test::doubles(y.value())) EXPECT_EQ(v, 3 * 2 * 0.5 + 1);
      tape.backward(y, Tensor::full(y.shape(), inputs, 1));
      EXPECT_EQ(conv.weight->variable.grad().dtype(), parameters);
      for (double v : test::doubles(conv.weight->variable.grad())) EXPECT_EQ(v, 8 * 0.5);
      for (double v : test::doubles(conv.bias->variable.grad())) EXPECT_EQ(v, 8);
    }
  }
}

BlockOptions small_block() {
  BlockOptions o;
  o.attention = {.channels = 6, .heads = 2};
  o.mlp = {.channels = 6, .hidden = 8};
  o.norm_shape = {6, 2, 1e-6, {2, 2}};
  return o;
}

// A block in float64, with a scalar loss: the sum of its output times cotangents.
struct BlockRun {
  ParameterStore store;
  Block block;
  bool class_token;
  Tensor x = random_tensor({3, 4, 6}, 2), y{}, dx{};

  explicit BlockRun(const BlockOptions& options, bool of_class_token = false)
      : block(Scope(store) / "blocks" / 0, options), class_token(of_class_token) {
    store.allocate(DType::kFloat64);
    store.initialize(5);
  }
  Tensor cotangent() const { return random_tensor(y.shape(), 3); }

  double loss(Tape* tape = nullptr) {
    Context ctx;
    ctx.tape = tape;
    ctx.mode = {.training = true, .compute = DType::kFloat64};
    const Variable leaf(x, true);
    ResidualStream stream(leaf);
    if (class_token) {
      block.forward_first(ctx, stream, {1, 4}, 1);
    } else {
      block.forward(ctx, stream, {2, 2});
    }
    const Variable out = stream.sum(ctx);
    y = out.value();
    if (tape) {
      tape->backward(out, cotangent());
      dx = leaf.grad();
    }
    const test::Doubles values = test::doubles(y), factors = test::doubles(cotangent());
    return std::inner_product(values.begin(), values.end(), factors.begin(), 0.0);
  }
  void forward_and_back() {
    Tape tape;
    loss(&tape);
  }
};

void expect_close(const Tensor& a, const Tensor& b) {
  EXPECT_LE(test::max_abs_difference(test::doubles(a), test::doubles(b)), 1e-13);
}

TEST(LayerScale, GainOneChangesNothing) {
  for (const bool class_token : {false, true}) {
    BlockOptions options = small_block();
    BlockRun without(options, class_token);
    options.layer_scale = 1;
    BlockRun with(options, class_token);
    with.forward_and_back();
    without.forward_and_back();
    EXPECT_EQ(with.store.count(), without.store.count() + 2 * 6);
    EXPECT_EQ(with.store.find("blocks.0.ls2.gamma")->decay, Decay::kNo);
    expect_close(with.y, without.y);
    expect_close(with.dx, without.dx);
  }
}

TEST(LayerScale, GainZeroKeepsResidualStream) {
  BlockOptions options = small_block();
  options.layer_scale = 0;
  BlockRun run(options);
  run.forward_and_back();
  EXPECT_TRUE(test::same_bits(run.y, run.x));
  expect_close(run.dx, run.cotangent());
}

TEST(LayerScale, LearnsGains) {
  BlockOptions options = small_block();
  options.layer_scale = 0.5;
  BlockRun run(options);
  run.forward_and_back();
  for (const char* name : {"blocks.0.ls1.gamma", "blocks.0.ls2.gamma", "blocks.0.mlp.fc1.weight"}) {
    const Variable& parameter = run.store.find(name)->variable;
    const Tensor gradient = parameter.grad().clone();
    Tensor value = parameter.value();
    EXPECT_GT(test::max_abs(test::doubles(gradient)), 1e-4) << name;
    for (std::int64_t i = 0; i < 6; ++i) {
      constexpr double kStep = 1e-5;
      double& v = value.data<double>()[i];
      const double start = v;
      v = start + kStep;
      const double above = run.loss();
      v = start - kStep;
      const double below = run.loss();
      v = start;
      EXPECT_NEAR(test::element(gradient, i), (above - below) / (2 * kStep), 1e-8) << name;
    }
  }
}

}  // namespace
}  // namespace dtn
