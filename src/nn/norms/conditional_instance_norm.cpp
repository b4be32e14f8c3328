// InstanceNorm by styles (Dumoulin et al., 2017) and by the moments of a style (Huang and Belongie,
// 2017); see dtn/nn/conditional_norm.h.
#include "dtn/ops/gather.h"
#include "dtn/ops/modulation.h"
#include "dtn/ops/tokens.h"
#include "nn/norms/conditional_parts.h"
#include "ops/norm/channel_norm.h"

namespace dtn {
namespace {

// Normalizes each channel of each sample separately.
ops::ChannelNorm instances(const Variable& x, double eps) { return {x.dim(0), x.dim(2), eps}; }

}  // namespace

ConditionalInstanceNorm::ConditionalInstanceNorm(const Scope& scope, const Options& options)
    : options_(options),
      weight_(
          scope.weight("weight", {options.styles, options.channels}, InitKind::kOnes, Decay::kNo)),
      bias_(
          scope.weight("bias", {options.styles, options.channels}, InitKind::kZeros, Decay::kNo)) {}

Variable ConditionalInstanceNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                                          const Condition& condition) {
  check_tokens("cin", x, grid, options_.channels);
  Variable weights;  // of the styles, if they are mixed
  if (check_styles("cin", condition, x.dim(0), options_.styles)) {
    weights = ops::cast(ctx, condition.vector, accumulator_of(x.dtype()));
  }
  auto of_style = [&](const Parameter* table) {
    return weights.defined() ? ops::mix_rows(ctx, table->variable, weights)
                             : ops::take_rows(ctx, table->variable, condition.index);
  };
  return ops::channel_norm(ctx, "cin", x, of_style(weight_), of_style(bias_),
                           instances(x, options_.eps));
}

Variable ConditionalInstanceNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                                            const Condition& condition) {
  check_tokens("cin", x, grid, options_.channels);
  const bool mixed = check_styles("cin", condition, x.dim(0), options_.styles);
  auto of_style = [&](const Parameter* table) {
    return mixed ? ops::reference::mix_rows(ctx, table->variable, condition.vector)
                 : ops::reference::take_rows(ctx, table->variable, condition.index);
  };
  return ops::reference::channel_norm(ctx, x, of_style(weight_), of_style(bias_),
                                      instances(x, options_.eps));
}

Variable AdaptiveInstanceNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                                       const Condition& condition) {
  check_tokens("adain", x, grid, options_.channels);
  const Variable& style = condition_tokens("adain", condition, x.dim(0), 0, options_.channels);
  auto [mean, std] = ops::channel_moments(ctx, style, options_.eps);
  return ops::channel_norm(ctx, "adain", x, std, mean, instances(x, options_.eps));
}

Variable AdaptiveInstanceNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                                         const Condition& condition) {
  check_tokens("adain", x, grid, options_.channels);
  const Variable& style = condition_tokens("adain", condition, x.dim(0), 0, options_.channels);
  auto [mean, std] = ops::reference::channel_moments(ctx, style, options_.eps);
  return ops::reference::channel_norm(ctx, x, std, mean, instances(x, options_.eps));
}

}  // namespace dtn
