// BatchNorm (Ioffe and Szegedy, "Batch normalization", 2015): each channel over the tokens of all
// samples. Training uses the statistics of the batch and moves the running statistics, as PyTorch
// does. Evaluation uses the running statistics.
//
// Parameters weight[C], bias[C]; buffers running_mean[C], running_var[C] (of the unbiased
// variance). PyTorch's num_batches_tracked is not kept: nothing depends on it.
#include "dtn/ops/primitive.h"
#include "nn/norms/affine.h"
#include "nn/norms/batch_statistics.h"
#include "nn/norms/entries.h"
#include "nn/norms/valid_tokens.h"
#include "nn/norms/view_means.h"

namespace dtn {
namespace {

class BatchNorm : public Normalizer {
 public:
  BatchNorm(const NormConfig& config, const NormShape& shape, const Scope& scope)
      : eps_(shape.eps),
        affine_(shape, scope),
        running_(scope, shape.channels, config.number("momentum").value(),
                 *config.find<bool>("sync")) {}

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return normalized(ctx, x, grid, false);
  }
  Variable forward_relu(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    return normalized(ctx, x, grid, true);
  }

  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    const auto normalize = [&](const Variable& rows) { return reference_of(ctx, rows); };
    if (!grid.padded()) return normalize(x);
    return of_valid_rows(ctx, x, grid, normalize);
  }
  bool takes_lengths() const override { return true; }
  bool needs_host_lengths() const override { return true; }

  NormView view(const Tensor& x, const TokenGrid&) const override {
    return {x, means_of_channels(x, running_.mean->value)};
  }

  std::optional<ChannelAffine> eval_affine(Context& ctx) const override {
    namespace e = primitive;
    const Variable std = e::sqrt(ctx, e::affine(ctx, Variable(running_.variance->value), 1, eps_));
    const Variable gain = e::div(ctx, affine_.weight.values_for(std), std);
    const Variable mean(running_.mean->value);
    return ChannelAffine{gain, e::sub(ctx, affine_.bias.values_for(std), e::mul(ctx, gain, mean))};
  }

 private:
  Variable normalized(Context& ctx, const Variable& x, const TokenGrid& grid, bool relu) {
    const auto normalize = [&](const Variable& rows, const auto& batch) {
      return batch_norm(ctx, "batch_norm", rows, affine_.weight.parameter(),
                        affine_.bias.parameter(), eps_, running_, batch, relu);
    };
    if (!grid.padded()) return normalize(x, shared_batch(ctx, running_.sync, x.value()));
    return of_valid_rows(ctx, x, grid, [&](const Variable& rows) {
      return normalize(rows, shared_rows(ctx, running_.sync, rows.dim(0)));
    });
  }

  Variable reference_of(Context& ctx, const Variable& x) const {
    namespace e = primitive;
    Variable xhat = dtn::reference::batch_norm(ctx, e::upcast(ctx, x), eps_, running_);
    Variable y =
        e::add(ctx, e::mul(ctx, xhat, affine_.weight.values_for(x)), affine_.bias.values_for(x));
    return e::cast(ctx, y, x.dtype());
  }

  double eps_;
  ChannelParameters affine_;
  RunningStatistics running_;
};

}  // namespace

NormEntry batch_norm_entry() {
  return {{.type = "bn",
           .doc = "BatchNorm: mean and variance of each channel over the tokens of all samples",
           .options = {momentum_option(), sync_option()},
           .running_statistics = true},
          make_norm<BatchNorm>};
}

}  // namespace dtn
