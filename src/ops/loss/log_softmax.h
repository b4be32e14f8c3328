// The logarithm of the softmax, made of primitive operations, for the references of the losses.
#pragma once

#include "dtn/ops/primitive.h"

namespace dtn::ops::reference {

// x - log sum exp x over the last dimension, with the gradient.
inline Variable log_softmax(Context& ctx, const Variable& x) {
  using namespace primitive;
  const Variable shifted = sub(ctx, x, detach(max(ctx, x, -1)));
  return sub(ctx, shifted, log(ctx, sum(ctx, exp(ctx, shifted), -1)));
}

}  // namespace dtn::ops::reference
