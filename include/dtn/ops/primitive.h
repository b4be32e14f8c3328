// Primitive differentiable operations. The references of all fused operations, and layers without
// kernels, are made of them. They run on every device in float32 and bfloat16, and on the CPU also
// in float64. The semantics are numpy's: shapes broadcast, negative dimensions count from the end.
//
// Each operation computes bfloat16 in float32 and rounds once. bfloat16 combined with float32 gives
// float32, as in numpy's type promotion. Code that sums many values (statistics, losses) should
// call upcast() first and cast() the result back. All other mixtures of types and devices, and
// shapes that do not match, are errors.
#pragma once

#include <array>
#include <initializer_list>
#include <span>

#include "dtn/autograd/context.h"

// Primitive differentiable operations.
namespace dtn::primitive {

// One dimension, or several in braces.
class Dims {
 public:
  Dims(int dim) : dims_{dim}, count_(1) {}
  Dims(std::initializer_list<int> dims);
  std::span<const int> all() const { return {dims_.data(), static_cast<std::size_t>(count_)}; }

 private:
  std::array<int, Shape::kMaxRank> dims_{};
  int count_ = 0;
};

// --- constants and types ------------------------------------------------------------------------

// Filled on the device: nothing is copied from the host.
Variable full(const Shape& shape, DType dtype, Device device, double value);
// A constant [1] with the type and the device of `like`.
Variable constant(const Variable& like, double value);
// x without a gradient path.
Variable detach(const Variable& x);
// Parameters of a bfloat16 model give their low-precision copy.
Variable cast(Context&, const Variable& x, DType dtype);
// x in its accumulator type: float32 for bfloat16, else unchanged.
Variable upcast(Context&, const Variable& x);

// --- elementwise --------------------------------------------------------------------------------

Variable add(Context&, const Variable& a, const Variable& b);  // a + b
Variable sub(Context&, const Variable& a, const Variable& b);  // a - b
Variable mul(Context&, const Variable& a, const Variable& b);  // a b
Variable div(Context&, const Variable& a, const Variable& b);  // a / b
// NaN if either is NaN. If both are equal the gradient goes to a.
Variable maximum(Context&, const Variable& a, const Variable& b);
// The same for the smaller value.
Variable minimum(Context&, const Variable& a, const Variable& b);
// 1 where a > b, else 0; no gradient.
Variable greater(const Variable& a, const Variable& b);
// a where condition is not 0, else b. No gradient flows to the condition.
Variable where(Context&, const Variable& condition, const Variable& a, const Variable& b);

// scale x + shift
Variable affine(Context&, const Variable& x, double scale, double shift = 0);
Variable neg(Context&, const Variable& x);      // -x
Variable exp(Context&, const Variable& x);      // e^x
Variable log(Context&, const Variable& x);      // natural logarithm
Variable sqrt(Context&, const Variable& x);     // square root
Variable erf(Context&, const Variable& x);      // error function
Variable sigmoid(Context&, const Variable& x);  // 1 / (1 + e^-x)
Variable tanh(Context&, const Variable& x);     // hyperbolic tangent
// max(x, 0), with gradient 0 at and below 0.
Variable relu(Context&, const Variable& x);
// |x|, with gradient 0 at 0.
Variable abs(Context&, const Variable& x);
Variable cos(Context&, const Variable& x);  // x in radians
Variable sin(Context&, const Variable& x);  // x in radians
// x^exponent, as the C library's pow.
Variable power(Context&, const Variable& x, double exponent);

// --- reductions; the dimensions stay with extent 1 ----------------------------------------------

// Sum over the dimensions.
Variable sum(Context&, const Variable& x, const Dims& dims);
// Mean over the dimensions.
Variable mean(Context&, const Variable& x, const Dims& dims);
// NaN if any value is NaN. Values that share the maximum share its gradient evenly.
Variable max(Context&, const Variable& x, const Dims& dims);
// Over the last dimension.
Variable softmax(Context&, const Variable& x);

// --- moving elements ----------------------------------------------------------------------------

// The same elements in another shape; one extent may be -1.
Variable reshape(Context&, const Variable& x, const Shape& shape);
// Dimension i of the result is dimension order[i] of x.
Variable permute(Context&, const Variable& x, std::initializer_list<int> order);
// Repeats x along new dimensions and those of extent 1.
Variable broadcast_to(Context&, const Variable& x, const Shape& shape);
// The elements of a, then those of b, along dimension dim.
Variable concat(Context&, const Variable& a, const Variable& b, int dim);
// Elements begin, begin + step, ... below end of dimension dim.
Variable narrow(Context&, const Variable& x, int dim, std::int64_t begin, std::int64_t end,
                std::int64_t step = 1);
// Adds `before` and `after` elements with this value along dimension dim.
Variable pad(Context&, const Variable& x, int dim, std::int64_t before, std::int64_t after,
             double value = 0);
// Element r of dimension dim of the result is element index[r] of x; index [R] int64, on the device
// of x. An index out of range is an error on the CPU and gives NaN on a GPU.
Variable gather(Context&, const Variable& x, int dim, const Tensor& index);

// --- products -----------------------------------------------------------------------------------

// [.., M, K] times [.., K, N]; the leading dimensions broadcast.
Variable matmul(Context&, const Variable& a, const Variable& b);

// Form of a convolution.
struct Conv2d {
  std::array<std::int64_t, 2> stride{1, 1}, padding{0, 0};  // along height, width
  std::int64_t groups = 1;
};
// x [B, C, H, W], weight [O, C / groups, kh, kw], bias [O] or undefined -> [B, O, H', W'],
// H' = (H + 2 padding - kh) / stride + 1. Computes a cross-correlation, as usual in deep learning.
// The result has the type of x. For layers, ops::convolution() is faster.
Variable conv2d(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                const Conv2d& how = {});

// Form of a pooling.
struct Pool2d {
  std::array<std::int64_t, 2> kernel, stride, padding{0, 0};  // padding smaller than the kernel
  bool count_padding = true;                                  // averages count the padding as zeros
};
// x [B, C, H, W]. If inputs share a window's maximum, the first of them gets the gradient. There is
// no gradient of a maximum that is not finite.
Variable max_pool2d(Context&, const Variable& x, const Pool2d& how);
// The mean of each window. Zeros of the padding count if how.count_padding is set.
Variable avg_pool2d(Context&, const Variable& x, const Pool2d& how);

}  // namespace dtn::primitive
