#include "norms/batch_statistics.h"

#include "dtn/ops/elementary.h"
#include "kernels/channel_norm.h"

namespace dtn {
namespace {

void move_towards(const RunningStatistics& running, const Tensor& x,
                  const ops::ChannelMoments& batch) {
  Tensor mean = running.mean->next, variance = running.variance->next;
  run_on(x.device(), MoveRunningStatistics{mean.dtype(), x.dim(-1), x.numel() / x.dim(-1),
                                           running.momentum, batch.mean.raw(), batch.rest.raw(),
                                           batch.variance.raw(), mean.raw(), variance.raw()});
}

ops::ChannelMoments settled(const RunningStatistics& running) {
  return {running.mean->value, {}, running.variance->value};
}

}  // namespace

RunningStatistics::RunningStatistics(ParameterStore& store, const std::string& prefix,
                                     std::int64_t channels, double share)
    : mean(store.add_buffer(prefix + ".running_mean", {channels}, InitKind::kZeros)),
      variance(store.add_buffer(prefix + ".running_var", {channels}, InitKind::kOnes)),
      momentum(share) {}

Variable batch_norm(Context& ctx, const char* op, const Variable& x, const Variable& weight,
                    const Variable& bias, double eps, const RunningStatistics& running) {
  const ops::ChannelNorm all_rows = {1, x.dim(-1), eps};
  if (!ctx.training) {
    return ops::channel_affine(ctx, op, x, weight, bias, all_rows, settled(running));
  }
  ops::ChannelMoments batch;
  Variable y = ops::channel_norm(ctx, op, x, weight, bias, all_rows, &batch);
  if (!ctx.recompute) move_towards(running, x.value(), batch);
  return y;
}

ops::ChannelMoments batch_statistics(const Context& ctx, const RunningStatistics& running,
                                     const Tensor& x, double eps) {
  if (!ctx.training) return settled(running);
  ops::ChannelMoments batch = ops::channel_statistics(x, {1, x.dim(-1), eps});
  if (!ctx.recompute) move_towards(running, x, batch);
  return batch;
}

Variable reference::batch_norm(Context& ctx, const Variable& x, double eps,
                               const RunningStatistics& running) {
  namespace e = elementary;
  if (ctx.training) return ops::reference::channel_norm(ctx, x, {}, {}, {1, x.dim(-1), eps});
  Variable std = e::sqrt(ctx, e::affine(ctx, Variable(running.variance->value), 1, eps));
  return e::div(ctx, e::sub(ctx, x, Variable(running.mean->value)), std);
}

OptionSchema momentum_option() {
  return {"momentum",
          OptionKind::kNumber,
          0.1,
          {},
          0,
          1,
          "share of each batch in the running statistics"};
}

OptionSchema sync_option() {
  return {"sync",
          OptionKind::kBool,
          false,
          {},
          0,
          0,
          "statistics of the batch over all ranks of a distributed run"};
}

}  // namespace dtn
