// LayerNorm (Ba et al., "Layer normalization", 2016).
#include "dtn/ops/norm.h"
#include "nn/norms/entries.h"
#include "nn/norms/view_means.h"

namespace dtn {
namespace {

class LayerNorm : public Normalizer {
 public:
  LayerNorm(const NormShape& shape, const Scope& scope)
      : eps_(shape.eps),
        weight_(scope.weight("weight", {shape.channels}, InitKind::kOnes, Decay::kNo)),
        bias_(scope.weight("bias", {shape.channels}, InitKind::kZeros, Decay::kNo)) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid&) override {
    return ops::layer_norm(ctx, x, weight_->variable, bias_->variable, eps_);
  }
  Variable forward_sum(Context& ctx, const Variable& residual, const Variable& branch,
                       const Tensor& scale, const TokenGrid&, Variable& sum) override {
    auto result = ops::residual_layer_norm(ctx, residual, branch, scale, weight_->variable,
                                           bias_->variable, eps_);
    sum = std::move(result.sum);
    return result.y;
  }
  Variable reference(Context& ctx, const Variable& x, const TokenGrid&) override {
    return ops::reference::layer_norm(ctx, x, weight_->variable, bias_->variable, eps_);
  }
  NormView view(const Tensor& x, const TokenGrid&) const override {
    return {x, means_of_tokens(x)};
  }
  bool is_per_token() const override { return true; }

 private:
  double eps_;
  Parameter* weight_;
  Parameter* bias_;
};

std::unique_ptr<Normalizer> make_layer(const NormConfig&, const NormShape& shape,
                                       const Scope& scope) {
  return make_layer_norm(shape, scope);
}

}  // namespace

std::unique_ptr<Normalizer> make_layer_norm(const NormShape& shape, const Scope& scope) {
  return std::make_unique<LayerNorm>(shape, scope);
}

NormEntry layer_norm_entry() {
  return {{"ln", "LayerNorm: mean and variance of each token over its channels", {}, false},
          make_layer};
}

}  // namespace dtn
