// Adaptive LayerNorm (Peebles and Xie, 2023); see dtn/nn/conditional_norm.h.
#include "dtn/ops/activation.h"
#include "dtn/ops/modulation.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "nn/norms/conditional_parts.h"

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

const Variable& AdaptiveLayerNorm::plus_one(const Variable& like) const {
  if (!plus_one_.defined() || plus_one_.dtype() != like.dtype() ||
      !(plus_one_.device() == like.device())) {
    Tensor one = Tensor::full({2, options_.channels}, like.dtype(), 1);
    one.slice(0, 1).zero();
    plus_one_ = Variable(one.reshape({2 * options_.channels}).to(like.device()));
  }
  return plus_one_;
}

Variable AdaptiveLayerNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                                    const Condition& condition) {
  check_tokens("adaln", x, grid, options_.channels);
  Variable c = condition_of(ctx, condition, x.dim(0), accumulator_of(x.dtype()), false);
  Variable scale = modulation_.forward(ctx, c);
  Variable gain = ops::add_positions(ctx, scale, plus_one(scale));
  return ops::modulated_layer_norm(ctx, x, gain, options_.eps);
}

Variable AdaptiveLayerNorm::reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                                      const Condition& condition) {
  check_tokens("adaln", x, grid, options_.channels);
  Variable c = condition_of(ctx, condition, x.dim(0), accumulator_of(x.dtype()), true);
  Variable scale = modulation_.reference(ctx, c);
  Variable gain = primitive::add(ctx, scale, plus_one(scale));
  return ops::reference::modulated_layer_norm(ctx, x, gain, options_.eps);
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

}  // namespace dtn
