// Dynamic LayerNorm (Kim, Song and Bengio, 2017); see dtn/nn/conditional_norm.h.
#include "dtn/ops/activation.h"
#include "dtn/ops/modulation.h"
#include "dtn/ops/tokens.h"
#include "nn/norms/conditional_parts.h"

namespace dtn {
namespace {

// Sets shifts to 0 and gains to 1.
void init_modulation_bias(Tensor& value, std::uint64_t, const std::string&) {
  const std::int64_t channels = value.numel() / 2;
  value.zero();
  value.slice(channels, 2 * channels).copy_from(Tensor::full({channels}, value.dtype(), 1));
}

}  // namespace

DynamicLayerNorm::DynamicLayerNorm(const Scope& scope, const Options& options)
    : options_(options),
      summary_(scope / "summary", options.channels, options.summary),
      modulation_(scope / "modulation", options.summary, 2 * options.channels,
                  {.bias_init = init_modulation_bias}) {}

Variable DynamicLayerNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                                   const Condition& condition) {
  check_tokens("dln", x, grid, options_.channels);
  check_no_condition("dln", condition);
  Variable summary = ops::mean_token(ctx, ops::tanh(ctx, summary_.forward(ctx, x)));
  Variable gain = modulation_.forward(ctx, ops::cast(ctx, summary, accumulator_of(x.dtype())));
  return ops::modulated_layer_norm(ctx, x, gain, options_.eps);
}

Variable DynamicLayerNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                                     const Condition& condition) {
  check_tokens("dln", x, grid, options_.channels);
  check_no_condition("dln", condition);
  Variable summary =
      ops::reference::mean_token(ctx, ops::reference::tanh(ctx, summary_.reference(ctx, x)));
  return ops::reference::modulated_layer_norm(ctx, x, modulation_.reference(ctx, summary),
                                              options_.eps);
}

}  // namespace dtn
