// The primitive kernels on tensors, without gradients: shapes and strides of tensors become those of
// the kernels, dimensions that all arrays walk through alike becoming one.
#pragma once

#include <initializer_list>

#include "dtn/core/tensor.h"
#include "kernels/primitive/elementwise.h"
#include "kernels/primitive/reduce.h"

namespace dtn::primitive {

// Which dimensions a reduction takes, or a shape was broadcast along.
using Mask = std::array<bool, Shape::kMaxRank>;

// dim counted from the front; throws Error when there is no such dimension.
int normalize_dim(int dim, int rank);
Shape broadcast_shape(const Shape& a, const Shape& b);

// f of tensors of one type and device, broadcast to `shape`.
Tensor map(Function f, const Shape& shape, std::initializer_list<const Tensor*> in, double a = 0,
           double b = 0);
// scale times the sum of x, or its maximum, over the masked dimensions, which stay with extent 1.
Tensor reduce(const Tensor& x, Reduction kind, const Mask& mask, DType dtype, double scale = 1);
// The gradient of something of that shape that was broadcast to the shape of x.
Tensor sum_to(const Tensor& x, const Shape& shape);

Tensor cast_tensor(const Tensor& x, DType dtype);
Tensor broadcast(const Tensor& x, const Shape& shape);
Tensor permuted(const Tensor& x, std::span<const int> order);
// Elements [begin, end) of a dimension.
Tensor narrowed(const Tensor& x, int dim, std::int64_t begin, std::int64_t end);
// Copies x into y from element `begin` of the dimension on.
void insert(const Tensor& x, Tensor& y, int dim, std::int64_t begin);

}  // namespace dtn::primitive
