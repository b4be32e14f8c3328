#include "dtn/nn/tokens_to_token.h"

#include <cmath>

#include "dtn/nn/residual_stream.h"
#include "dtn/nn/token_conv.h"
#include "dtn/ops/convolution.h"
#include "dtn/ops/grouped_attention.h"
#include "dtn/ops/linear.h"

namespace dtn {
namespace {

struct Split {
  std::int64_t kernel, stride, padding;
};
constexpr Split kFirst{7, 4, 2}, kNext{3, 2, 1};

Tokens split(Context& ctx, const Tokens& tokens, const Split& how) {
  const auto [k, stride, padding] = how;
  const TokenGrid& grid = tokens.grid;
  const auto [height, width] =
      ops::convolved_grid({grid.height, grid.width}, {k, k}, {stride, stride}, {padding, padding});
  return {ops::soft_split(ctx, tokens.x, grid.height, grid.width, k, stride, padding),
          {height, width}};
}

constexpr std::int64_t area(const Split& how) { return how.kernel * how.kernel; }

}  // namespace

TokenTransformer::TokenTransformer(const Scope& scope, std::int64_t channels, double eps)
    : channels_(channels),
      norm1_(make_layer_norm({channels, 1, eps}, scope / "norm1")),
      qkv_(scope / "attn" / "qkv", channels, 3 * kWidth, {.bias = false}),
      proj_(scope / "attn" / "proj", kWidth, kWidth),
      norm2_(make_layer_norm({kWidth, 1, eps}, scope / "norm2")),
      mlp_(scope / "mlp", {.channels = kWidth, .hidden = kWidth}) {}

Variable TokenTransformer::forward(Context& ctx, const Variable& x) const {
  const TokenGrid sequence{1, x.dim(1)};
  const Variable qkv = qkv_.forward(ctx, norm1_->forward(ctx, x, sequence));
  const Variable mixed =
      ops::grouped_attention(ctx, qkv, qkv, {},
                             {.heads = 1,
                              .q = {0, kWidth, kWidth},
                              .k = {kWidth, kWidth, kWidth},
                              .v = {2 * kWidth, kWidth, kWidth},
                              .scale = 1 / std::sqrt(static_cast<double>(channels_)),
                              .groups = nullptr});
  const Variable v = primitive::narrow(ctx, qkv, 2, 2 * kWidth, 3 * kWidth);
  const Variable y = ops::linear_residual(ctx, mixed, proj_.w(), proj_.b(), v, {});
  return mlp_.forward_add(ctx, norm2_->forward(ctx, y, sequence), sequence, mlp_.last().values(), y,
                          {});
}

TokensToToken::TokensToToken(const Scope& scope, std::int64_t channels, std::int64_t width,
                             double eps)
    : attention1_(scope / "attention1", channels * area(kFirst), eps),
      attention2_(scope / "attention2", TokenTransformer::kWidth * area(kNext), eps),
      project_(scope / "project", TokenTransformer::kWidth * area(kNext), width) {}

Tokens TokensToToken::forward(Context& ctx, const Tensor& images) const {
  Tokens tokens = split(ctx, image_as_tokens(ctx, images), kFirst);
  for (const TokenTransformer* transformer : {&attention1_, &attention2_}) {
    const auto run = [transformer](Context& inner, const Variable& x) {
      return transformer->forward(inner, x);
    };
    tokens.x = run_block(ctx, tokens.x, run);
    tokens = split(ctx, tokens, kNext);
  }
  tokens.x = project_.forward(ctx, tokens.x);
  return tokens;
}

}  // namespace dtn
