// LayerNorm as an operation (Ba et al., "Layer normalization", 2016).
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// y = weight (x - mean) / sqrt(var + eps) + bias over the last dimension, var biased. The backward
// pass adds a gradient that is already accumulated at x in the same pass.
Variable layer_norm(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                    double eps);

// sum = residual + s_b branch and y = layer_norm(sum), in one pass. scale [B] is the drop-path
// scale of each sample, or undefined for 1. Bit-identical to residual_add followed by layer_norm.
struct SumAndNorm {
  Variable sum, y;
};
// Returns the sum and its LayerNorm, see SumAndNorm.
SumAndNorm residual_layer_norm(Context&, const Variable& residual, const Variable& branch,
                               const Tensor& scale, const Variable& weight, const Variable& bias,
                               double eps);

namespace reference {
Variable layer_norm(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                    double eps);
}
}  // namespace dtn::ops
