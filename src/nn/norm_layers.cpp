#include "dtn/nn/norm_layers.h"

#include <cmath>
#include <utility>

#include "dtn/nn/initializers.h"
#include "dtn/nn/observer.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/primitive.h"

namespace dtn {
namespace {

std::unique_ptr<Normalizer> make_output_norm(const OutputNorm& output, const Scope& scope) {
  auto norm = make_normalizer(output.norm, output.shape, scope);
  if (!output.zero) return norm;
  Parameter* gain = scope.store.find(scope.name("weight"));
  if (gain == nullptr && !(output.shape.affine && output.norm.affine.value_or(true))) {
    throw ConfigError(cat("model.norm.affine: false leaves ", scope.path,
                          " without its weight, which must start at 0; set it to true"));
  }
  DTN_CHECK(gain != nullptr, scope.path, " needs a norm with a weight that starts at 0, but '",
            output.norm.type, "' has no weight");
  gain->init = InitKind::kZeros;
  return norm;
}

// Returns the normalizer's gain and shift in evaluation, if they do not depend on the input.
std::optional<ChannelAffine> eval_affine_of(Context& ctx, const Normalizer& norm) {
  return ctx.training() ? std::nullopt : norm.eval_affine(ctx);
}

// Multiplies each row of a weight [out, ...] by its factor.
Variable scaled_rows(Context& ctx, const Variable& weight, const Variable& factors) {
  const std::int64_t rows = weight.dim(0);
  const Shape column = weight.value().rank() == 4 ? Shape{rows, 1, 1, 1} : Shape{rows, 1};
  return primitive::mul(ctx, weight, primitive::reshape(ctx, factors, column));
}

TokenConv::Options conv_options(TokenConv::Options options, const OutputNorm& output) {
  options.bias = output.norm.type == "none";
  return options;
}

}  // namespace

ConvNorm::ConvNorm(const Scope& conv, const Scope& norm, std::int64_t in,
                   TokenConv::Options options, const OutputNorm& output)
    : conv_(conv, in, output.shape.channels, conv_options(std::move(options), output)),
      norm_(make_output_norm(output, norm)) {}

Tokens ConvNorm::run(Context& ctx, const Tokens& tokens, bool relu) const {
  if (const auto affine = eval_affine_of(ctx, *norm_)) {
    const Variable weight = scaled_rows(ctx, conv_.weight->variable, affine->gain);
    Tokens result = conv_.forward(ctx, tokens, {weight, affine->shift});
    if (relu) result.x = ops::relu(ctx, result.x);
    return result;
  }
  Tokens result = conv_.forward(ctx, tokens);
  result.x = relu ? norm_->forward_relu(ctx, result.x, result.grid)
                  : norm_->forward(ctx, result.x, result.grid);
  return result;
}

Tokens ConvNorm::reference(Context& ctx, const Tokens& tokens) const {
  Tokens result = conv_.reference(ctx, tokens);
  result.x = norm_->reference(ctx, result.x, result.grid);
  return result;
}

LinearNorm::LinearNorm(const Scope& linear, const Scope& norm, std::int64_t in,
                       const OutputNorm& output)
    : weight_(linear.weight("weight", {output.shape.channels, in},
                            uniform_within(1 / std::sqrt(static_cast<double>(in))), Decay::kYes)),
      norm_(make_output_norm(output, norm)) {}

Variable LinearNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid) const {
  if (const auto affine = eval_affine_of(ctx, *norm_)) {
    return ops::linear(ctx, x, scaled_rows(ctx, weight_->variable, affine->gain), affine->shift);
  }
  return norm_->forward(ctx, ops::linear(ctx, x, weight_->variable, {}), grid);
}

Variable LinearNorm::forward_shown(Context& ctx, const Variable& x, const TokenGrid& grid) const {
  if (ctx.observer) {
    Context aside = unseen(ctx);
    const Variable inner = ops::linear(aside, x, weight_->variable, {});
    const Variable y = norm_->forward(aside, inner, grid);
    ctx.observer->normalized(*norm_, inner.value(), y.value(), grid);
  }
  return forward(ctx, x, grid);
}

Variable LinearNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid) const {
  return norm_->reference(ctx, ops::reference::linear(ctx, x, weight_->variable, {}), grid);
}

NormLinear::NormLinear(const Scope& norm, const Scope& linear, const NormConfig& config,
                       const NormShape& shape, std::int64_t out)
    : norm_(make_normalizer(config, shape, norm)), linear_(linear, shape.channels, out) {}

Variable NormLinear::forward(Context& ctx, const Variable& x) const {
  const auto affine = eval_affine_of(ctx, *norm_);
  if (!affine) return linear_.forward(ctx, norm_->forward(ctx, x, {1, 1}));
  const std::int64_t out = linear_.w().dim(0);
  const Variable weight = primitive::mul(ctx, linear_.w(), affine->gain);
  const Variable shifts = primitive::mul(ctx, linear_.w(), affine->shift);
  const Variable shift = primitive::reshape(ctx, primitive::sum(ctx, shifts, 1), {out});
  const Variable bias = primitive::add(ctx, linear_.b(), shift);
  return ops::linear(ctx, x, weight, bias);
}

Variable NormLinear::reference(Context& ctx, const Variable& x) const {
  return linear_.reference(ctx, norm_->reference(ctx, x, {1, 1}));
}

ConvEmbed::ConvEmbed(const Scope& scope, std::int64_t in, std::int64_t out,
                     const TokenConv::Options& options)
    : proj_(scope / "proj", in, out, options),
      norm_(make_layer_norm({out, 1, kDefaultNormEps}, scope / "norm")) {}

Tokens ConvEmbed::forward(Context& ctx, const Tokens& tokens) const {
  Tokens coarse = proj_.forward(ctx, tokens);
  coarse.x = norm_->forward(ctx, coarse.x, coarse.grid);
  return coarse;
}

}  // namespace dtn
