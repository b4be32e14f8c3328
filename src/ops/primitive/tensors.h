// The primitive kernels on tensors, without gradients. Converts shapes and strides of tensors to
// kernel arguments, and joins dimensions that are contiguous in all arrays.
#pragma once

#include <initializer_list>

#include "dtn/core/tensor.h"
#include "kernels/primitive/elementwise.h"
#include "kernels/primitive/reduce.h"

namespace dtn::primitive {

// Dimensions that a reduction covers, or along which a shape was broadcast.
using Mask = std::array<bool, Shape::kMaxRank>;

// Returns dim counted from the front. Throws Error if the dimension does not exist.
int normalize_dim(int dim, int rank);
Shape broadcast_shape(const Shape& a, const Shape& b);

// Returns f of tensors of one type and device, broadcast to `shape`.
Tensor map(Function f, const Shape& shape, std::initializer_list<const Tensor*> in, double a = 0,
           double b = 0);
// Returns scale times the sum of x, or its maximum, over the masked dimensions. These stay with
// extent 1.
Tensor reduce(const Tensor& x, Reduction kind, const Mask& mask, DType dtype, double scale = 1);
// Sums x to `shape`: the gradient of a broadcast from `shape` to the shape of x.
Tensor sum_to(const Tensor& x, const Shape& shape);

Tensor cast_tensor(const Tensor& x, DType dtype);
Tensor broadcast(const Tensor& x, const Shape& shape);
Tensor permuted(const Tensor& x, std::span<const int> order);
// Checks an index [R] of elements of dimension `dim`. An index out of range, which only the CPU
// detects, is named by its place, for instance "of sample" r.
void check_index(const char* op, const Tensor& x, int dim, const Tensor& index, const char* place);
// Returns every step-th element of [begin, end) of a dimension.
Tensor narrowed(const Tensor& x, int dim, std::int64_t begin, std::int64_t end,
                std::int64_t step = 1);
// Copies x into every step-th element of a dimension of y, starting at `begin`.
void insert(const Tensor& x, Tensor& y, int dim, std::int64_t begin, std::int64_t step = 1);

}  // namespace dtn::primitive
