// Dropout and DropPath. Their random numbers depend on the path of the module.
#pragma once

#include "dtn/autograd/context.h"
#include "dtn/nn/scope.h"
#include "dtn/ops/drop.h"

namespace dtn {

// Drops single elements in training, with probability `rate`.
class Dropout {
 public:
  Dropout(const Scope& scope, double rate) : rate_(rate), stream_(stream_of(scope.path)) {}

  bool active(const Context& ctx) const { return ctx.training() && rate_ > 0; }
  // x [...] -> [...]; returns x itself outside training.
  Variable forward(Context& ctx, const Variable& x) const {
    return ops::dropout(ctx, x, rate_, stream_);
  }

 private:
  double rate_;
  std::uint32_t stream_;
};

// Drops the whole residual branch of a sample in training, with probability `rate` (stochastic
// depth, see ops/drop.h).
class DropPath {
 public:
  DropPath(const Scope& scope, double rate) : rate_(rate), stream_(stream_of(scope.path)) {}

  // The factor of each sample of x [B, ...], [B] in the accumulator type; undefined for 1.
  Tensor scales(const Context& ctx, const Variable& x) const {
    return ops::drop_path_scales(ctx, x.dim(0), rate_, stream_, x.dtype(), x.device());
  }

 private:
  double rate_;
  std::uint32_t stream_;
};

}  // namespace dtn
