// Switchable normalization (Luo et al., "Differentiable learning-to-normalize via switchable
// normalization", ICLR 2019). The math is in kernels/norm/switchable_norm.h; this file holds the
// parameters and the options.
//
// Parameters and buffers, named as in the released code (there per-channel tensors are
// [1, C, 1, 1]):
//    weight[C], bias[C], mean_weight[3], var_weight[3], running_mean[C], running_var[C]
// As in the released code, the mixture weights start equal. The running statistics start at zero,
// move with momentum 0.1 (0.9 in that code's definition), and collect the variance that normalizes
// the batch, without a correction for its size. Differences: all variances are biased, so an image
// of one token needs no exception; the released code has an unbiased variance over the pixels of an
// image. The layer statistics belong to each token, as in LayerNorm.
#include "ops/norm/switchable_norm.h"

#include <numeric>

#include "dtn/ops/padding.h"
#include "dtn/ops/primitive.h"
#include "nn/norms/affine.h"
#include "nn/norms/batch_statistics.h"
#include "nn/norms/entries.h"
#include "nn/norms/shared_batch.h"
#include "nn/norms/view_means.h"

namespace dtn {
namespace {

class SwitchableNorm : public Normalizer {
 public:
  SwitchableNorm(const NormConfig& config, const NormShape& shape, const Scope& scope)
      : shape_(shape),
        affine_(shape, scope),
        momentum_(config.number("momentum").value()),
        sync_(*config.find<bool>("sync")) {
    mean_weight_ = scope.weight("mean_weight", {3}, InitKind::kOnes, Decay::kNo);
    var_weight_ = scope.weight("var_weight", {3}, InitKind::kOnes, Decay::kNo);
    running_mean_ = scope.buffer("running_mean", {shape.channels}, InitKind::kZeros);
    running_var_ = scope.buffer("running_var", {shape.channels}, InitKind::kZeros);
  }

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    const ops::SwitchableNormInputs in = inputs(x, grid);
    const std::int64_t rows = std::reduce(in.counts.begin(), in.counts.end());
    return ops::switchable_norm(
        ctx, x, in,
        grid.padded() ? shared_rows(ctx, sync_, rows) : shared_batch(ctx, sync_, x.value()));
  }
  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return ops::reference::switchable_norm(ctx, x, inputs(x, grid));
  }
  NormView view(const Tensor& x, const TokenGrid&) const override;
  bool takes_lengths() const override { return true; }
  bool needs_host_lengths() const override { return true; }

 private:
  ops::SwitchableNormInputs inputs(const Variable& x, const TokenGrid& grid) const {
    DTN_CHECK(x.value().rank() == 3 && x.dim(2) == shape_.channels, "sn: input ",
              to_string(x.shape()), " is not [B, T, ", shape_.channels, "]");
    ops::SwitchableNormInputs in{.weight = affine_.weight.values_for(x),
                                 .bias = affine_.bias.values_for(x),
                                 .mean_weight = mean_weight_->variable,
                                 .var_weight = var_weight_->variable,
                                 .running_mean = running_mean_->value,
                                 .running_var = running_var_->value,
                                 .next_mean = running_mean_->next,
                                 .next_var = running_var_->next,
                                 .momentum = momentum_,
                                 .eps = shape_.eps};
    if (!grid.padded()) return in;
    in.counts = ops::host_lengths(grid.lengths, x.dim(0), x.dim(1));
    in.lengths = grid.lengths;
    return in;
  }

  NormShape shape_;
  ChannelParameters affine_;
  double momentum_;
  bool sync_;
  Parameter* mean_weight_;
  Parameter* var_weight_;
  Buffer* running_mean_;
  Buffer* running_var_;
};

NormView SwitchableNorm::view(const Tensor& x, const TokenGrid&) const {
  Context plain;
  const Tensor logits = in_float64(mean_weight_->variable.value());
  const Tensor shares = primitive::softmax(plain, Variable(logits)).value();
  const double* of = shares.data<double>();
  Tensor mean = means_of_groups(x, shape_.channels);
  const Tensor token = means_of_tokens(x), batch = means_of_channels(x, running_mean_->value);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    mean.data<double>()[i] = of[0] * mean.data<double>()[i] + of[1] * token.data<double>()[i] +
                             of[2] * batch.data<double>()[i];
  }
  return {x, mean};
}

}  // namespace

NormEntry switchable_norm_entry() {
  return {{.type = "sn",
           .doc = "Switchable normalization: a learned mix of instance, layer and batch statistics",
           .options = {momentum_option(), sync_option()},
           .running_statistics = true},
          make_norm<SwitchableNorm>};
}

}  // namespace dtn
