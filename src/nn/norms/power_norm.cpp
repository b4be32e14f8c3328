// PowerNorm (Shen et al., ICML 2020) as in the released DTN code: groups of channels are scaled
// first, and the warmup takes 3000 iterations by default. The math is in kernels/norm/power_norm.h.
//
// Names and shapes are those of the authors' module: weight[C], bias[C], running_phi[1, C, 1, 1],
// ema_gz[1, C, 1, 1], iters[1]. iters counts optimizer steps, not micro-batches.
#include "ops/norm/power_norm.h"

#include <utility>

#include "nn/norms/affine.h"
#include "nn/norms/entries.h"
#include "nn/norms/groups.h"
#include "nn/norms/shared_batch.h"
#include "nn/norms/valid_tokens.h"

namespace dtn {
namespace {

class PowerNorm : public Normalizer {
 public:
  PowerNorm(const NormConfig& config, const NormShape& shape, const Scope& scope)
      : channels_(shape.channels),
        options_{.groups = groups_of(config, shape.heads),
                 .eps = shape.eps,
                 .warmup = *config.find<std::int64_t>("warmup"),
                 .alpha_forward = config.number("alpha_forward").value(),
                 .alpha_backward = config.number("alpha_backward").value()},
        sync_(*config.find<bool>("sync")),
        affine_(shape, scope) {
    const Shape of_channels = {1, channels_, 1, 1};
    running_phi_ = scope.buffer("running_phi", of_channels, InitKind::kOnes);
    ema_gz_ = scope.buffer("ema_gz", of_channels, InitKind::kZeros);
    iterations_ = scope.buffer("iters", {1}, InitKind::kZeros);
  }

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    check(x);
    if (!grid.padded()) return normalize(ctx, x, shared_batch(ctx, sync_, x.value()));
    return of_valid_rows(ctx, x, grid, [&](const Variable& rows) {
      return normalize(ctx, rows, shared_rows(ctx, sync_, rows.dim(0)));
    });
  }
  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid) override {
    check(x);
    const auto normalize = [&](const Variable& rows) {
      return ops::reference::power_norm(ctx, rows, affine_.weight.values_for(rows),
                                        affine_.bias.values_for(rows), options_, state());
    };
    return grid.padded() ? of_valid_rows(ctx, x, grid, normalize) : normalize(x);
  }
  bool takes_lengths() const override { return true; }
  bool needs_host_lengths() const override { return true; }

 private:
  Variable normalize(Context& ctx, const Variable& x,
                     std::shared_ptr<const ops::SharedBatch> batch) const {
    return ops::power_norm(ctx, x, affine_.weight.values_for(x), affine_.bias.values_for(x),
                           options_, state(), std::move(batch));
  }
  ops::PowerNormState state() const {
    return {running_phi_->value, ema_gz_->value, iterations_->value,
            running_phi_->next,  ema_gz_->next,  iterations_->next};
  }
  void check(const Variable& x) const {
    DTN_CHECK(x.dim(-1) == channels_, "power norm: input ", to_string(x.shape()),
              " does not end in ", channels_, " channels");
  }

  std::int64_t channels_;
  ops::PowerNormOptions options_;
  bool sync_;
  ChannelParameters affine_;
  Buffer* running_phi_;
  Buffer* ema_gz_;
  Buffer* iterations_;
};

}  // namespace

NormEntry power_norm_entry() {
  return {
      {.type = "power",
       .doc = "PowerNorm: groups of channels divided by their root mean square, then each channel "
              "by a running one",
       .options =
           {
               groups_option(
                   "number of groups of channels that are scaled first: heads (as many as "
                   "attention heads), or a number that divides the channels C"),
               {"warmup",
                OptionKind::kInt,
                std::int64_t{3000},
                {},
                0,
                16e6,  // float32 counts exactly up to 2^24
                "number of steps at the start that divide by the mean square of the batch, not by "
                "the running one"},
               share_option("alpha_forward", 0.9,
                            "share of the running mean square that each step keeps"),
               share_option("alpha_backward", 0.9,
                            "share of the running mean of the backward pass that each step keeps"),
               sync_option(),
           },
       .running_statistics = true,
       .approximate_gradient = true,
       .check = check_groups},
      make_norm<PowerNorm>};
}

}  // namespace dtn
