// BatchNorm (Ioffe and Szegedy, "Batch normalization", 2015): each channel over the tokens of all
// samples. Training normalizes with the statistics of the batch and moves the running ones, as
// PyTorch does; evaluation normalizes with those.
//
// Parameters weight[C], bias[C]; buffers running_mean[C], running_var[C] (of the unbiased
// variance). PyTorch's num_batches_tracked is not kept: nothing depends on it.
#include "dtn/ops/elementary.h"
#include "kernels/channel_norm.h"
#include "norms/rows.h"
#include "ops/channel_norm.h"

namespace dtn {
namespace {

class BatchNorm : public Normalizer {
 public:
  BatchNorm(const NormConfig& config, const NormShape& shape, ParameterStore& store,
            const std::string& prefix)
      : channels_(shape.channels),
        eps_(shape.eps),
        momentum_(config.number("momentum").value()),
        weight_(store.add(prefix + ".weight", {shape.channels}, InitKind::kOnes, Decay::kNo)),
        bias_(store.add(prefix + ".bias", {shape.channels}, InitKind::kZeros, Decay::kNo)),
        mean_(store.add_buffer(prefix + ".running_mean", {shape.channels}, InitKind::kZeros)),
        variance_(store.add_buffer(prefix + ".running_var", {shape.channels}, InitKind::kOnes)) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid&) override {
    if (!ctx.training) {
      return ops::channel_affine(ctx, "batch_norm", x, weight_->variable, bias_->variable, over(),
                                 {mean_->value, {}, variance_->value});
    }
    ops::ChannelMoments batch;
    Variable y =
        ops::channel_norm(ctx, "batch_norm", x, weight_->variable, bias_->variable, over(), &batch);
    if (!ctx.recompute) move_running_statistics(x, batch);
    return y;
  }

  // Leaves the running statistics alone.
  Variable reference(Context& ctx, const Variable& x, const TokenGrid&) override {
    namespace e = elementary;
    if (ctx.training) {
      return ops::reference::channel_norm(ctx, x, weight_->variable, bias_->variable, over());
    }
    Variable rstd_inverse = e::sqrt(ctx, e::affine(ctx, Variable(variance_->value), 1, eps_));
    Variable xhat = e::div(ctx, e::sub(ctx, x, Variable(mean_->value)), rstd_inverse);
    return e::add(ctx, e::mul(ctx, xhat, weight_->variable), bias_->variable);
  }

 private:
  ops::ChannelNorm over() const { return {1, channels_, eps_}; }

  void move_running_statistics(const Variable& x, const ops::ChannelMoments& batch) {
    Tensor next_mean = mean_->next, next_variance = variance_->next;
    run_on(x.device(),
           MoveRunningStatistics{next_mean.dtype(), channels_, x.value().numel() / channels_,
                                 momentum_, batch.mean.raw(), batch.rest.raw(),
                                 batch.variance.raw(), next_mean.raw(), next_variance.raw()});
  }

  std::int64_t channels_;
  double eps_, momentum_;
  Parameter* weight_;
  Parameter* bias_;
  Buffer* mean_;
  Buffer* variance_;
};

std::unique_ptr<Normalizer> make(const NormConfig& config, const NormShape& shape,
                                 ParameterStore& store, const std::string& prefix) {
  return std::make_unique<BatchNorm>(config, shape, store, prefix);
}

}  // namespace

NormRow batch_norm_row() {
  NormSchema schema;
  schema.type = "bn";
  schema.doc = "BatchNorm: mean and variance of each channel over the tokens of all samples";
  schema.running_statistics = true;
  schema.options = {
      {"momentum",
       OptionKind::kNumber,
       0.1,
       {},
       0,
       1,
       "share of the batch in the running statistics"},
      {"sync",
       OptionKind::kBool,
       false,
       {},
       0,
       0,
       "statistics over all ranks of a distributed run"},
  };
  return {std::move(schema), make};
}

}  // namespace dtn
