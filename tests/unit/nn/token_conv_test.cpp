#include "dtn/nn/token_conv.h"

#include <numeric>

#include "dtn/nn/conv2d.h"
#include "tensors.h"

namespace dtn {
namespace {

using test::random_tensor;

TEST(TokenConv, MatchesConvolutionOfImage) {
  ParameterStore store;
  const TokenConv layer(Scope(store) / "stem", 3, 8, {.kernel = 3, .stride = 2, .padding = 1});
  const TokenConv free(Scope(store) / "free", 8, 8,
                       {.kernel = 3, .padding = 1, .groups = 8, .bias = false});
  EXPECT_EQ(layer.weight->name, "stem.weight");
  EXPECT_EQ(layer.weight->shape, Shape({8, 3, 3, 3}));
  EXPECT_EQ(layer.weight->decay, Decay::kYes);
  EXPECT_EQ(layer.bias->name, "stem.bias");
  EXPECT_EQ(layer.bias->decay, Decay::kNo);
  EXPECT_EQ(free.weight->shape, Shape({8, 1, 3, 3}));
  EXPECT_EQ(free.bias, nullptr);
  EXPECT_THROW(TokenConv(Scope(store) / "odd", 3, 8, {.kernel = 1, .groups = 2}), Error);
  store.allocate(DType::kFloat64);
  store.initialize(3);

  Context ctx;
  ctx.mode.compute = DType::kFloat64;
  const Tensor images = random_tensor({2, 3, 7, 10}, 1);
  const Tokens tokens = image_as_tokens(ctx, images);
  EXPECT_EQ(tokens.grid, (TokenGrid{7, 10}));
  const Tokens y = free.forward(ctx, layer.forward(ctx, tokens));
  EXPECT_EQ(y.grid, (TokenGrid{4, 5}));
  EXPECT_EQ(y.x.shape(), Shape({2, 20, 8}));
  const Tokens slow = free.reference(ctx, layer.reference(ctx, tokens));
  EXPECT_LE(test::max_abs_difference(test::doubles(y.x.value()), test::doubles(slow.x.value())),
            1e-14);
  const Variable planes = primitive::conv2d(ctx, Variable(images), layer.weight->variable,
                                            layer.bias->variable, layer.how);
  const Variable first = layer.forward(ctx, tokens).x;
  const Variable turned =
      primitive::reshape(ctx, primitive::permute(ctx, planes, {0, 2, 3, 1}), {2, 20, 8});
  EXPECT_LE(test::max_abs_difference(test::doubles(first.value()), test::doubles(turned.value())),
            1e-14);

  Tokens with_class = tokens;
  with_class.extra = 1;
  EXPECT_THROW(layer.forward(ctx, with_class), Error);
}

// Mean square and largest magnitude of a weight's values.
struct Spread {
  double square, largest;
  explicit Spread(const Parameter* p) {
    const test::Doubles v = test::doubles(p->variable.value());
    square = std::inner_product(v.begin(), v.end(), v.begin(), 0.0) / static_cast<double>(v.size());
    largest = test::max_abs(v);
  }
};

TEST(TokenConv, InitializesAsConfigured) {
  ParameterStore store;
  const Scope scope(store);
  const TokenConv torch(scope / "torch", 64, 128, {.kernel = 3});
  const TokenConv he(scope / "he", 64, 128, {.kernel = 3, .init = ConvInit::kFanOut});
  const TokenConv depthwise(scope / "dw", 1024, 1024,
                            {.kernel = 3, .padding = 1, .groups = 1024, .init = ConvInit::kFanOut});
  store.allocate(DType::kFloat64);
  store.initialize(4);
  const double bound = 1 / std::sqrt(64.0 * 9);
  for (const Parameter* p : {torch.weight, torch.bias}) {
    EXPECT_LE(Spread(p).largest, bound) << p->name;
    EXPECT_GE(Spread(p).largest, 0.9 * bound) << p->name;
  }
  EXPECT_NEAR(Spread(torch.weight).square, bound * bound / 3, 0.02 * bound * bound);
  EXPECT_NEAR(Spread(he.weight).square, 2.0 / (9 * 128), 0.02 * 2 / (9 * 128));
  EXPECT_EQ(Spread(he.bias).largest, 0);
  EXPECT_NEAR(Spread(depthwise.weight).square, 2.0 / 9, 0.05 * 2 / 9);
}

}  // namespace
}  // namespace dtn
