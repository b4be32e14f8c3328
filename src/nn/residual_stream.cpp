#include "dtn/nn/residual_stream.h"

#include "dtn/ops/drop.h"

namespace dtn {

const Variable& ResidualStream::sum(Context& ctx) {
  if (branch_.defined()) set(ops::residual_add(ctx, x_, branch_, scale_));
  return x_;
}

Variable ResidualStream::normalized(Context& ctx, Normalizer& norm, const TokenGrid& grid) {
  if (!branch_.defined()) return norm.forward(ctx, x_, grid);
  Variable sum;
  Variable y = norm.forward_sum(ctx, x_, branch_, scale_, grid, sum);
  set(std::move(sum));
  return y;
}

void ResidualStream::run(Context& ctx, const std::function<void(Context&, ResidualStream&)>& work) {
  if (!ctx.mode.checkpoint_blocks) return work(ctx, *this);
  set(checkpoint(ctx, sum(ctx), [work](Context& inner, const Variable& x) {
    ResidualStream part(x);
    work(inner, part);
    return part.sum(inner);
  }));
}

void ResidualStream::set(Variable sum) {
  x_ = std::move(sum);
  branch_ = Variable();
  scale_ = Tensor();
}

void ResidualStream::add(Variable branch, Tensor scale) {
  DTN_CHECK(!branch_.defined(), "a residual stream takes one branch at a time");
  branch_ = std::move(branch);
  scale_ = std::move(scale);
}

}  // namespace dtn
