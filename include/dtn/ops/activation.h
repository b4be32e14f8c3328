// Activation functions other than GELU (ops/linear.h), elementwise on activations of any type.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

Variable relu(Context&, const Variable& x);  // max(x, 0), with slope 0 at 0
Variable silu(Context&, const Variable& x);  // x / (1 + e^-x)
Variable tanh(Context&, const Variable& x);

namespace reference {
Variable relu(Context&, const Variable& x);
Variable silu(Context&, const Variable& x);
Variable tanh(Context&, const Variable& x);
}  // namespace reference
}  // namespace dtn::ops
