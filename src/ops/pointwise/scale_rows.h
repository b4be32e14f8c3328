// Drop path on a tensor: multiplies each sample by its factor.
#pragma once

#include "dtn/core/tensor.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::ops {

// Returns scale_b x + residual for x [B, ...]; scale [B] in the accumulator type, residual like x
// or undefined for none.
inline Tensor scale_rows(const Tensor& x, const Tensor& scale, const Tensor& residual = {}) {
  Tensor y = Tensor::empty_like(x);
  ScaleRows args{};
  args.dtype = x.dtype();
  args.count = x.numel();
  args.per_scale = x.numel() / scale.numel();
  args.scale = scale.raw();
  args.x = x.raw();
  args.residual = residual.defined() ? residual.raw() : nullptr;
  args.y = y.raw();
  run_on(x.device(), args);
  return y;
}

}  // namespace dtn::ops
