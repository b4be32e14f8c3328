#include "models/unet/conv_unit.h"

#include "dtn/nn/residual_stream.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/modulation.h"
#include "nn/activated.h"

namespace dtn {
namespace {

ConvNorm make_layers(const Scope& scope, const ConvUnit::Options& o) {
  return {scope / "conv",
          scope / "norm",
          o.in,
          {.kernel = 3, .stride = o.stride, .padding = 1, .init = ConvInit::kFanOut},
          {o.norm, o.shape}};
}

}  // namespace

ConvUnit::ConvUnit(const Scope& scope, const Options& o)
    : path_(scope.path),
      shape_(o.shape),
      act_(o.act),
      stride_(o.stride),
      pono_eps_(o.pono_eps),
      shows_norm_(o.norm.type != "none"),
      layers_(make_layers(scope, o)) {}

Variable ConvUnit::activated(Context& ctx, const Variable& x) const {
  return dtn::activated(ctx, x, act_);
}

void ConvUnit::show_norm(Context& ctx, const Tokens& tokens) const {
  ctx.observer->begin_layer(tokens.x.value(), tokens.grid);
  Context aside = unseen(ctx);
  aside.mode.recompute = true;  // running statistics move once
  const Tokens inner = layers_.conv().forward(aside, tokens);
  ctx.observer->convolved(inner.x.value(), inner.grid);
  if (!shows_norm_) return;
  const Variable y = layers_.norm().forward(aside, inner.x, inner.grid);
  ctx.observer->normalized(layers_.norm(), inner.x.value(), y.value(), inner.grid);
}

Tokens ConvUnit::normalized(Context& ctx, const Tokens& tokens) const {
  if (ctx.observer) show_norm(ctx, tokens);
  Tokens result = layers_.forward(ctx, tokens);
  if (ctx.observer) ctx.observer->end_layer(result.x.value(), result.grid);
  return result;
}

Tokens ConvUnit::run_once(Context& ctx, const Tokens& tokens) const {
  if (ctx.observer) show_norm(ctx, tokens);
  const bool fused = act_ == MlpActivation::kRelu;
  Tokens result = fused ? layers_.forward_relu(ctx, tokens) : layers_.forward(ctx, tokens);
  if (!fused) result.x = activated(ctx, result.x);
  if (ctx.observer) ctx.observer->end_layer(result.x.value(), result.grid);
  return result;
}

Tokens ConvUnit::forward(Context& ctx, const Tokens& tokens) const {
  const TokenGrid behind{(tokens.grid.height + stride_ - 1) / stride_,
                         (tokens.grid.width + stride_ - 1) / stride_};
  const auto unit = [this, grid = tokens.grid](Context& inner, const Variable& x) {
    return run_once(inner, {x, grid}).x;
  };
  return {run_block(ctx, tokens.x, unit), behind};
}

Tokens ConvUnit::forward_and_moments(Context& ctx, const Tokens& tokens, bool pono,
                                     TokenMoments& moments) const {
  if (ctx.observer) ctx.observer->begin_layer(tokens.x.value(), tokens.grid);
  Tokens result = layers_.conv().forward(ctx, tokens);
  if (ctx.observer) ctx.observer->convolved(result.x.value(), result.grid);
  const ops::Standardized standard = ops::standardize_tokens(ctx, result.x, pono_eps_);
  moments = {standard.mean, standard.std};
  if (pono) result.x = standard.y;
  if (ctx.observer && shows_norm_) {
    Context aside = unseen(ctx);
    aside.mode.recompute = true;  // running statistics move once
    const Variable y = layers_.norm().forward(aside, result.x, result.grid);
    ctx.observer->normalized(layers_.norm(), result.x.value(), y.value(), result.grid);
  }
  Normalizer& norm = layers_.norm();
  result.x = act_ == MlpActivation::kRelu
                 ? norm.forward_relu(ctx, result.x, result.grid)
                 : activated(ctx, norm.forward(ctx, result.x, result.grid));
  if (ctx.observer) ctx.observer->end_layer(result.x.value(), result.grid);
  return result;
}

LayerInfo ConvUnit::info() const {
  LayerInfo info{.paths = {path_}, .norms = {}};
  if (shows_norm_) info.norms.push_back({path_ + ".norm", shape_.heads, &layers_.norm()});
  return info;
}

ResidualUnits::ResidualUnits(const Scope& scope, const ConvUnit::Options& o)
    : first_(scope / 0, o), second_(scope / 1, o) {}

Tokens ResidualUnits::forward(Context& ctx, const Tokens& tokens) const {
  const auto block = [this, grid = tokens.grid](Context& inner, const Variable& x) {
    Tokens middle = first_.normalized(inner, {x, grid});
    middle.x = first_.activated(inner, middle.x);
    return ops::residual_add(inner, x, second_.normalized(inner, middle).x, {});
  };
  return {run_block(ctx, tokens.x, block), tokens.grid};
}

}  // namespace dtn
