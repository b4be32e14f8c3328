// Elementary differentiable operations, float32 and float64, numpy semantics. They are the
// vocabulary in which every fused operation's reference is written: clear, general and slow.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::elementary {

// Broadcasting, as in numpy.
Variable add(Context&, const Variable& a, const Variable& b);
Variable sub(Context&, const Variable& a, const Variable& b);
Variable mul(Context&, const Variable& a, const Variable& b);
Variable div(Context&, const Variable& a, const Variable& b);
// scale x + shift
Variable affine(Context&, const Variable& x, double scale, double shift = 0);

Variable exp(Context&, const Variable& x);
Variable log(Context&, const Variable& x);
Variable sqrt(Context&, const Variable& x);
Variable erf(Context&, const Variable& x);
Variable sigmoid(Context&, const Variable& x);
// max(x, 0), with gradient 0 at and below 0.
Variable clamp_at_zero(Context&, const Variable& x);

// Sum over one dimension, which stays with extent 1.
Variable sum(Context&, const Variable& x, int dim);
Variable mean(Context&, const Variable& x, int dim);
// Softmax over the last dimension; the maximum is subtracted first.
Variable softmax(Context&, const Variable& x);

Variable reshape(Context&, const Variable& x, const Shape& shape);
// Dimension i of the result is dimension order[i] of x.
Variable permute(Context&, const Variable& x, std::initializer_list<int> order);
Variable concat(Context&, const Variable& a, const Variable& b, int dim);
// Elements [begin, end) of dimension dim.
Variable narrow(Context&, const Variable& x, int dim, std::int64_t begin, std::int64_t end);
// Products of the last two dimensions; the leading ones must agree.
Variable matmul(Context&, const Variable& a, const Variable& b);

// A constant of the same type as `like`.
Variable constant(const Variable& like, double value);

}  // namespace dtn::elementary
