// Kernels over the rows of tensors.
#pragma once

#include "dtn/core/tensor.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::ops {

// Copies `rows` rows of `columns` elements. Rows of x start at element x_begin and are x_stride
// elements apart; rows of y start at y_begin and are y_stride apart.
inline void copy_rows(const Tensor& x, std::int64_t x_begin, std::int64_t x_stride, Tensor& y,
                      std::int64_t y_begin, std::int64_t y_stride, std::int64_t rows,
                      std::int64_t columns) {
  const auto unit = static_cast<std::int64_t>(size_of(x.dtype()));
  run_on(x.device(),
         CopyRows{x.dtype(), rows, columns, static_cast<const std::byte*>(x.raw()) + x_begin * unit,
                  x_stride, static_cast<std::byte*>(y.raw()) + y_begin * unit, y_stride});
}

// Returns scale_b x + residual for x [B, ...], which is drop path; scale [B] in the accumulator
// type, residual like x or undefined for none.
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
