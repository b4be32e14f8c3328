// Elementwise activation functions of any type. Exact GELU is in ops/linear.h.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

Variable relu(Context&, const Variable& x);  // max(x, 0), with slope 0 at 0
Variable silu(Context&, const Variable& x);  // x / (1 + e^-x)
Variable tanh(Context&, const Variable& x);  // (e^x - e^-x) / (e^x + e^-x)
// The tanh approximation of GELU:
//     x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
Variable gelu_tanh(Context&, const Variable& x);
Variable quick_gelu(Context&, const Variable& x);  // x / (1 + e^-1.702 x), as in CLIP
Variable hardswish(Context&, const Variable& x);   // x clip(x + 3, 0, 6) / 6

namespace reference {
Variable relu(Context&, const Variable& x);
Variable silu(Context&, const Variable& x);
Variable tanh(Context&, const Variable& x);
Variable gelu_tanh(Context&, const Variable& x);
Variable quick_gelu(Context&, const Variable& x);
Variable hardswish(Context&, const Variable& x);
}  // namespace reference
}  // namespace dtn::ops
