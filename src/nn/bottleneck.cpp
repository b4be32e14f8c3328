#include "dtn/nn/bottleneck.h"

#include "dtn/nn/residual_stream.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/tokens.h"

namespace dtn {
namespace {

const TokenConv::Options kPointwise{.kernel = 1, .init = ConvInit::kFanOut};

ConvNorm make_conv(const Scope& block, const char* number, const Bottleneck::Options& o,
                   std::int64_t in, std::int64_t out, TokenConv::Options conv, bool zero = false) {
  conv.init = ConvInit::kFanOut;
  const OutputNorm output{o.norm, {out, o.heads, o.eps}, zero};
  const std::string name = cat("conv", number);
  if (o.names == ConvNames::kTimm) {
    return {block / name / "conv", block / name / "bn", in, conv, output};
  }
  return {block / name, block / cat("bn", number), in, conv, output};
}

std::optional<ConvNorm> make_shortcut(const Scope& block, const Bottleneck::Options& o) {
  if (o.stride == 1 && o.in == o.out) return {};
  const bool timm = o.names == ConvNames::kTimm;
  const Scope scope = block / "downsample";
  return ConvNorm(scope / (timm ? "conv" : "0"), scope / (timm ? "bn" : "1"), o.in,
                  {.kernel = 1, .stride = o.stride, .init = ConvInit::kFanOut},
                  {o.norm, {o.out, o.heads, o.eps}});
}

}  // namespace

SqueezeExcitation::SqueezeExcitation(const Scope& scope, std::int64_t channels, std::int64_t inside)
    : fc1_(scope / "fc1", channels, inside, kPointwise),
      fc2_(scope / "fc2", inside, channels, kPointwise) {}

Variable SqueezeExcitation::forward(Context& ctx, const Variable& x) const {
  const Variable mean = primitive::reshape(ctx, ops::mean_token(ctx, x), {x.dim(0), 1, x.dim(2)});
  Tokens squeezed = fc1_.forward(ctx, {mean, {1, 1}});
  squeezed.x = ops::relu(ctx, squeezed.x);
  const Variable factors = primitive::sigmoid(ctx, fc2_.forward(ctx, squeezed).x);
  return primitive::mul(ctx, x, factors);
}

Bottleneck::Bottleneck(const Scope& scope, const Options& o)
    : path_(scope.path),
      stride_(o.stride),
      conv1_(make_conv(scope, "1", o, o.in, o.inside, {.kernel = 1})),
      conv2_(make_conv(scope, "2", o, o.inside, o.inside,
                       {.kernel = 3, .stride = o.stride, .padding = 1, .groups = o.groups})),
      squeeze_(o.squeeze > 0 ? std::optional(SqueezeExcitation(scope / "se", o.inside, o.squeeze))
                             : std::nullopt),
      conv3_(make_conv(scope, "3", o, o.inside, o.out, {.kernel = 1}, true)),
      shortcut_(make_shortcut(scope, o)) {}

Tokens Bottleneck::forward(Context& ctx, const Tokens& tokens) const {
  if (ctx.observer) ctx.observer->begin_layer(tokens.x.value(), tokens.grid);
  Tokens result = unseen_forward(ctx, tokens);
  if (ctx.observer) ctx.observer->end_layer(result.x.value(), result.grid);
  return result;
}

Tokens Bottleneck::unseen_forward(Context& ctx, const Tokens& tokens) const {
  Tokens inside = conv1_.forward_relu(ctx, tokens);
  inside = conv2_.forward_relu(ctx, inside);
  if (squeeze_) inside.x = squeeze_->forward(ctx, inside.x);
  Tokens result = conv3_.forward(ctx, inside);
  const Variable residual = shortcut_ ? shortcut_->forward(ctx, tokens).x : tokens.x;
  result.x = ops::relu(ctx, ops::residual_add(ctx, residual, result.x, {}));
  return result;
}

TokenGrid Bottleneck::grid_behind(const TokenGrid& grid) const {
  return {(grid.height + stride_ - 1) / stride_, (grid.width + stride_ - 1) / stride_};
}

Tokens Bottleneck::run(Context& ctx, const Tokens& tokens) const {
  const auto block = [this, grid = tokens.grid](Context& inner, const Variable& x) {
    return forward(inner, {x, grid}).x;
  };
  return {run_block(ctx, tokens.x, block), grid_behind(tokens.grid)};
}

}  // namespace dtn
