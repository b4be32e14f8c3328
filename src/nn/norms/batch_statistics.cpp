#include "nn/norms/batch_statistics.h"

#include "dtn/core/check.h"
#include "dtn/ops/primitive.h"
#include "kernels/norm/channel_norm.h"

namespace dtn {
namespace {

void move_towards(const RunningStatistics& running, const Tensor& x,
                  const ops::ChannelMoments& moments, const ops::SharedBatch* batch) {
  const std::int64_t rows = batch ? batch->rows() : x.numel() / x.dim(-1);
  Tensor mean = running.mean->next, variance = running.variance->next;
  run_on(x.device(), MoveRunningStatistics{mean.dtype(), x.dim(-1), rows, running.momentum,
                                           moments.mean.raw(), moments.rest.raw(),
                                           moments.variance.raw(), mean.raw(), variance.raw()});
}

// Throws ConfigError if the whole batch has a single row. The variance of one row is 0, so the
// output would not depend on x. PyTorch refuses this, too.
void check_training_rows(const Tensor& x, const ops::SharedBatch* batch) {
  if ((batch ? batch->rows() : x.numel() / x.dim(-1)) != 1) return;
  throw ConfigError(
      cat("BatchNorm needs more than one value per channel in training; its input is ",
          to_string(x.shape()), ", so use a larger train.batch_size or train.micro_batch"));
}

ops::ChannelMoments eval_moments(const RunningStatistics& running) {
  return {running.mean->value, {}, running.variance->value};
}

}  // namespace

RunningStatistics::RunningStatistics(const Scope& scope, std::int64_t channels, double share,
                                     bool all_ranks)
    : mean(scope.buffer("running_mean", {channels}, InitKind::kZeros)),
      variance(scope.buffer("running_var", {channels}, InitKind::kOnes)),
      momentum(share),
      sync(all_ranks) {}

Variable batch_norm(Context& ctx, const char* op, const Variable& x, const Variable& weight,
                    const Variable& bias, double eps, const RunningStatistics& running,
                    const std::shared_ptr<const ops::SharedBatch>& batch, bool relu) {
  const ops::ChannelNorm all_rows = {1, x.dim(-1), eps, false, relu};
  if (!ctx.training()) {
    return ops::channel_affine(ctx, op, x, weight, bias, all_rows, eval_moments(running));
  }
  check_training_rows(x.value(), batch.get());
  ops::ChannelMoments moments;
  Variable y = ops::channel_norm(ctx, op, x, weight, bias, all_rows, &moments, batch);
  if (!ctx.mode.recompute) move_towards(running, x.value(), moments, batch.get());
  return y;
}

ops::ChannelMoments batch_statistics(const Context& ctx, const RunningStatistics& running,
                                     const Tensor& x, double eps, const ops::SharedBatch* batch) {
  if (!ctx.training()) return eval_moments(running);
  check_training_rows(x, batch);
  ops::ChannelMoments moments = ops::channel_statistics(x, {1, x.dim(-1), eps});
  if (batch) batch->combine(moments);
  if (!ctx.mode.recompute) move_towards(running, x, moments, batch);
  return moments;
}

Variable reference::batch_norm(Context& ctx, const Variable& x, double eps,
                               const RunningStatistics& running) {
  namespace e = primitive;
  if (ctx.training()) return ops::reference::channel_norm(ctx, x, {}, {}, {1, x.dim(-1), eps});
  Variable std = e::sqrt(ctx, e::affine(ctx, Variable(running.variance->value), 1, eps));
  return e::div(ctx, e::sub(ctx, x, Variable(running.mean->value)), std);
}

OptionSchema momentum_option() {
  return share_option("momentum", 0.1, "share of each batch in the running statistics");
}

}  // namespace dtn
