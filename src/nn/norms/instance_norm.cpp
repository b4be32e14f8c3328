// InstanceNorm (Ulyanov et al., "Instance normalization", 2016): normalizes each channel of each
// sample over its tokens.
#include "nn/norms/rows.h"
#include "nn/norms/valid_tokens.h"
#include "nn/norms/view_means.h"
#include "ops/norm/channel_norm.h"

namespace dtn {
namespace {

class InstanceNorm : public Normalizer {
 public:
  InstanceNorm(const NormConfig& config, const NormShape& shape, const Scope& scope)
      : channels_(shape.channels),
        eps_(shape.eps),
        unbiased_(*config.find<std::string>("variant") == "official"),
        weight_(scope.weight("weight", {shape.channels}, InitKind::kOnes, Decay::kNo)),
        bias_(scope.weight("bias", {shape.channels}, InitKind::kZeros, Decay::kNo)) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return of_each_sample(ctx, x, grid, over(x),
                          [&](const Variable& tokens, const ops::ChannelNorm& how) {
                            return ops::channel_norm(ctx, "instance_norm", tokens,
                                                     weight_->variable, bias_->variable, how);
                          });
  }
  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return of_each_sample(
        ctx, x, grid, over(x), [&](const Variable& tokens, const ops::ChannelNorm& how) {
          return ops::reference::channel_norm(ctx, tokens, weight_->variable, bias_->variable, how);
        });
  }
  bool takes_lengths() const override { return true; }
  bool needs_host_lengths() const override { return true; }

  NormView view(const Tensor& x, const TokenGrid&) const override {
    return {x, means_of_groups(x, channels_)};
  }

 private:
  ops::ChannelNorm over(const Variable& x) const {
    return {x.dim(0), channels_, eps_, unbiased_, {}};
  }

  std::int64_t channels_;
  double eps_;
  bool unbiased_;
  Parameter* weight_;
  Parameter* bias_;
};

std::unique_ptr<Normalizer> make_instance(const NormConfig& config, const NormShape& shape,
                                          const Scope& scope) {
  return std::make_unique<InstanceNorm>(config, shape, scope);
}

}  // namespace

NormRow instance_norm_row() {
  NormSchema schema;
  schema.type = "in";
  schema.doc = "InstanceNorm: mean and variance of each channel of a sample over its tokens";
  schema.options = {
      {"variant",
       OptionKind::kChoice,
       std::string("paper"),
       {"paper", "official"},
       0,
       0,
       "divisor of the variance: paper divides by the T tokens, as in PyTorch; official divides by "
       "T - 1, as in the released DTN code"},
  };
  return {std::move(schema), make_instance};
}

}  // namespace dtn
