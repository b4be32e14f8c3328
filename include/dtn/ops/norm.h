// LayerNorm (Ba et al., "Layer normalization", 2016) and L2 normalization as operations.
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

// Divides each row of x [.., C] by its length, or by 1e-12 if it is shorter:
//     y  = x / max(|x|, 1e-12)
//     dx = (dy - y (dy . y)) / |x|, or dy / 1e-12 for |x| <= 1e-12
// A row of zeros stays zero. Lengths are float32 for bfloat16 x.
Variable l2_normalize(Context&, const Variable& x);

namespace reference {
Variable layer_norm(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                    double eps);
Variable l2_normalize(Context&, const Variable& x);
}  // namespace reference
}  // namespace dtn::ops
