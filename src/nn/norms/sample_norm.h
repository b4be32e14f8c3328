// Normalization of groups of consecutive channels of a sample over its tokens, for GroupNorm and
// InstanceNorm.
#pragma once

#include "dtn/nn/normalizer.h"
#include "nn/norms/affine.h"
#include "nn/norms/valid_tokens.h"
#include "nn/norms/view_means.h"

namespace dtn {

class SampleNorm : public Normalizer {
 public:
  // `op` names the operation. With `unbiased`, the variance of T tokens is divided by T - 1.
  SampleNorm(const char* op, std::int64_t groups, bool unbiased, const NormShape& shape,
             const Scope& scope)
      : op_(op), groups_(groups), eps_(shape.eps), unbiased_(unbiased), affine_(shape, scope) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return normalized(ctx, x, grid, over(x));
  }
  Variable forward_relu(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    ops::ChannelNorm how = over(x);
    how.relu = true;
    return normalized(ctx, x, grid, how);
  }
  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return of_each_sample(
        ctx, x, grid, over(x), [&](const Variable& tokens, const ops::ChannelNorm& how) {
          return ops::reference::channel_norm(ctx, tokens, affine_.weight.parameter(),
                                              affine_.bias.parameter(), how);
        });
  }
  bool takes_lengths() const override { return true; }
  bool needs_host_lengths() const override { return true; }

  NormView view(const Tensor& x, const TokenGrid&) const override {
    return {x, means_of_groups(x, groups_)};
  }

 private:
  Variable normalized(Context& ctx, const Variable& x, const TokenGrid& grid,
                      const ops::ChannelNorm& all) {
    const auto normalize = [&](const Variable& tokens, const ops::ChannelNorm& how) {
      return ops::channel_norm(ctx, op_, tokens, affine_.weight.parameter(),
                               affine_.bias.parameter(), how);
    };
    return of_each_sample(ctx, x, grid, all, normalize);
  }
  ops::ChannelNorm over(const Variable& x) const { return {x.dim(0), groups_, eps_, unbiased_}; }

  const char* op_;
  std::int64_t groups_;
  double eps_;
  bool unbiased_;
  ChannelParameters affine_;
};

}  // namespace dtn
