// Adaptive LayerNorm (Peebles and Xie, 2023); see dtn/nn/conditional_norm.h.
#include "dtn/ops/activation.h"
#include "dtn/ops/modulation.h"
#include "nn/norms/conditional_parts.h"
#include "nn/norms/entries.h"

namespace dtn {

AdaptiveLayerNorm::AdaptiveLayerNorm(const Scope& scope, const Options& options)
    : options_(options),
      modulation_(scope / "modulation", options.condition, 2 * options.channels,
                  {.init = InitKind::kZeros}) {
  if (options.gate) {
    gate_.emplace(scope / "gate", options.condition, options.channels,
                  Linear::Options{.init = InitKind::kZeros});
  }
}

Variable AdaptiveLayerNorm::condition_of(Context& ctx, const Condition& condition,
                                         std::int64_t batch, DType dtype, bool reference) const {
  Variable c = condition_vector(ctx, "adaln", condition, batch, options_.condition, dtype);
  if (!options_.silu) return c;
  return reference ? ops::reference::silu(ctx, c) : ops::silu(ctx, c);
}

Variable AdaptiveLayerNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                                    const Condition& condition) {
  check_tokens("adaln", x, grid, options_.channels);
  Variable c = condition_of(ctx, condition, x.dim(0), accumulator_of(x.dtype()), false);
  return ops::modulated_layer_norm(ctx, x, modulation_.forward(ctx, c), options_.eps,
                                   ops::GainForm::kScales);
}

Variable AdaptiveLayerNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                                      const Condition& condition) {
  check_tokens("adaln", x, grid, options_.channels);
  Variable c = condition_of(ctx, condition, x.dim(0), accumulator_of(x.dtype()), true);
  return ops::reference::modulated_layer_norm(ctx, x, modulation_.reference(ctx, c), options_.eps,
                                              ops::GainForm::kScales);
}

const Variable& AdaptiveLayerNorm::vector_for_gate(const Condition& condition) const {
  DTN_CHECK(gate_, "adaln: built without the option `gate`");
  DTN_CHECK(condition.vector.defined(), "adaln: the condition is ", text_of(condition),
            "; expected: a vector for each sample");
  return condition.vector;
}

Variable AdaptiveLayerNorm::gate(Context& ctx, const Condition& condition) const {
  const Variable& c = vector_for_gate(condition);
  return gate_->forward(ctx,
                        condition_of(ctx, condition, c.dim(0), accumulator_of(c.dtype()), false));
}

Variable AdaptiveLayerNorm::reference_gate(Context& ctx, const Condition& condition) const {
  const Variable& c = vector_for_gate(condition);
  return gate_->reference(ctx,
                          condition_of(ctx, condition, c.dim(0), accumulator_of(c.dtype()), true));
}

namespace {

std::unique_ptr<Normalizer> make_adaptive(const NormConfig&, const NormShape& shape,
                                          const Scope& scope) {
  const AdaptiveLayerNorm::Options options{
      .channels = shape.channels, .condition = shape.condition, .eps = shape.eps};
  return make_conditioned("adaln", true, std::make_unique<AdaptiveLayerNorm>(scope, options));
}

}  // namespace

NormEntry adaptive_layer_norm_entry() {
  return {{.type = "adaln",
           .doc = "Adaptive LayerNorm: gain and shift from a condition of each sample",
           .reads_condition = true,
           .check = check_conditioned},
          make_adaptive};
}

}  // namespace dtn
