// GroupNorm (Wu and He, "Group normalization", 2018): normalizes groups of consecutive channels of
// a sample over its tokens.
#include "nn/norms/groups.h"
#include "nn/norms/rows.h"
#include "nn/norms/valid_tokens.h"
#include "nn/norms/view_means.h"
#include "ops/norm/channel_norm.h"

namespace dtn {
namespace {

class GroupNorm : public Normalizer {
 public:
  GroupNorm(const NormConfig& config, const NormShape& shape, const Scope& scope)
      : groups_(groups_of(config, shape.heads)),
        eps_(shape.eps),
        weight_(scope.weight("weight", {shape.channels}, InitKind::kOnes, Decay::kNo)),
        bias_(scope.weight("bias", {shape.channels}, InitKind::kZeros, Decay::kNo)) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return of_each_sample(ctx, x, grid, over(x),
                          [&](const Variable& tokens, const ops::ChannelNorm& how) {
                            return ops::channel_norm(ctx, "group_norm", tokens, weight_->variable,
                                                     bias_->variable, how);
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
    return {x, means_of_groups(x, groups_)};
  }

 private:
  ops::ChannelNorm over(const Variable& x) const { return {x.dim(0), groups_, eps_, {}}; }

  std::int64_t groups_;
  double eps_;
  Parameter* weight_;
  Parameter* bias_;
};

std::unique_ptr<Normalizer> make_group(const NormConfig& config, const NormShape& shape,
                                       const Scope& scope) {
  return std::make_unique<GroupNorm>(config, shape, scope);
}

}  // namespace

NormRow group_norm_row() {
  NormSchema schema;
  schema.type = "gn";
  schema.doc = "GroupNorm: mean and variance of each group of channels of a sample over its tokens";
  schema.options = {
      groups_option("number of groups of channels: heads (as many as attention heads), or a number "
                    "that divides the channels C; 1 is LayerNorm over the whole sample")};
  schema.check = check_groups;
  return {std::move(schema), make_group};
}

}  // namespace dtn
