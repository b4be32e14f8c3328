// LayerNorm (Ba et al., "Layer normalization", 2016).
#include "dtn/ops/modulation.h"
#include "dtn/ops/norm.h"
#include "nn/norms/affine.h"
#include "nn/norms/entries.h"
#include "nn/norms/view_means.h"

namespace dtn {
namespace {

class LayerNorm : public Normalizer {
 public:
  LayerNorm(const NormShape& shape, const Scope& scope) : eps_(shape.eps), affine_(shape, scope) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid&) override {
    return ops::layer_norm(ctx, x, affine_.weight.values_for(x), affine_.bias.values_for(x), eps_);
  }
  Variable forward_sum(Context& ctx, const Variable& residual, const Variable& branch,
                       const Tensor& scale, const TokenGrid&, Variable& sum) override {
    auto result =
        ops::residual_layer_norm(ctx, residual, branch, scale, affine_.weight.values_for(residual),
                                 affine_.bias.values_for(residual), eps_);
    sum = std::move(result.sum);
    return result.y;
  }
  // With weight and bias, the gain of a sample would not act on the normalized tokens alone.
  Variable forward_modulated(Context& ctx, const Variable& x, const Variable& modulation,
                             const TokenGrid& grid) override {
    if (has_parameters()) return Normalizer::forward_modulated(ctx, x, modulation, grid);
    return ops::modulated_layer_norm(ctx, x, modulation, eps_, ops::GainForm::kScales);
  }
  Variable forward_gated_modulated(Context& ctx, const Variable& residual, const Variable& gate,
                                   const Variable& branch, const Variable& modulation,
                                   const TokenGrid& grid, Variable& sum) override {
    if (has_parameters()) {
      return Normalizer::forward_gated_modulated(ctx, residual, gate, branch, modulation, grid,
                                                 sum);
    }
    auto result = ops::gated_modulated_layer_norm(ctx, residual, gate, branch, modulation, eps_,
                                                  ops::GainForm::kScales);
    sum = std::move(result.sum);
    return result.y;
  }
  Variable reference(Context& ctx, const Variable& x, const TokenGrid&) override {
    return ops::reference::layer_norm(ctx, x, affine_.weight.values_for(x),
                                      affine_.bias.values_for(x), eps_);
  }
  NormView view(const Tensor& x, const TokenGrid&) const override {
    return {x, means_of_tokens(x)};
  }
  bool is_per_token() const override { return true; }

 private:
  bool has_parameters() const { return affine_.weight.parameter().defined(); }

  double eps_;
  ChannelParameters affine_;
};

std::unique_ptr<Normalizer> make_layer(const NormConfig&, const NormShape& shape,
                                       const Scope& scope) {
  return make_layer_norm(shape, scope);
}

// Positional normalization (Li et al., 2019) without the use of its moments: see PositionalNorm.
std::unique_ptr<Normalizer> make_positional(const NormConfig&, const NormShape& shape,
                                            const Scope& scope) {
  NormShape plain = shape;
  plain.affine = false;
  return make_layer_norm(plain, scope);
}

std::optional<NormProblem> check_positional(const NormConfig& config, const NormSite&) {
  if (!config.affine.value_or(false)) return std::nullopt;
  return NormProblem{"affine", "pono has no weight and bias; with them it is ln"};
}

}  // namespace

std::unique_ptr<Normalizer> make_layer_norm(const NormShape& shape, const Scope& scope) {
  return std::make_unique<LayerNorm>(shape, scope);
}

NormEntry layer_norm_entry() {
  return {{"ln", "LayerNorm: mean and variance of each token over its channels", {}, false},
          make_layer};
}

NormEntry positional_norm_entry() {
  return {{.type = "pono",
           .doc = "Positional normalization: LayerNorm without weight and bias",
           .check = check_positional},
          make_positional};
}

}  // namespace dtn
