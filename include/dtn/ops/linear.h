// Linear layers, alone or fused with their neighbours in a transformer block.
//
// Shapes: x [..., in], weight [out, in], bias [out] (undefined: none). Activations are float32,
// bfloat16 or float64; parameters float32 (float64 with float64), see Variable::value_as.
// Every fused operation has a reference made of primitive operations: same result, no fusion.
#pragma once

#include "dtn/autograd/context.h"

// Differentiable operations.
namespace dtn::ops {

// y = x W^T + b  [..., out]
Variable linear(Context&, const Variable& x, const Variable& weight, const Variable& bias);

// linear() with only rows [begin, end) of weight and bias: [..., end - begin]. The other rows get
// no gradient.
Variable linear_rows(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                     std::int64_t begin, std::int64_t end);

// The exact gelu(z) = z Phi(z), or its approximation by tanh (ops::gelu_tanh).
enum class GeluForm { kExact, kTanh };

// y = gelu(x W^T + b)
Variable linear_gelu(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                     GeluForm form = GeluForm::kExact);

// y = residual + s_b (x W^T + b), where s_b is the drop-path scale of sample b: row_scale [B] in
// the accumulator type, or undefined for 1. x [B, T, in], residual [B, T, out].
Variable linear_residual(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                         const Variable& residual, const Tensor& row_scale);

// The MLP branch of a block:
//     y = residual + s_b (gelu(x W1^T + b1) W2^T + b2)
// or the branch alone if residual (and with it row_scale) is undefined. Saves the hidden layer
// before the activation. The activation is recomputed inside the backward product, or saved too on
// a CUDA device with enough free memory; the bits are the same.
Variable mlp_residual(Context&, const Variable& x, const Variable& weight1, const Variable& bias1,
                      const Variable& weight2, const Variable& bias2, const Variable& residual,
                      const Tensor& row_scale, GeluForm form = GeluForm::kExact);

// The exact gelu(x), elementwise.
Variable gelu(Context&, const Variable& x);

// The same operations made of primitive operations, for tests.
namespace reference {
Variable linear(Context&, const Variable& x, const Variable& weight, const Variable& bias);
Variable linear_rows(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                     std::int64_t begin, std::int64_t end);
Variable gelu(Context&, const Variable& x);
Variable linear_gelu(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                     GeluForm form = GeluForm::kExact);
Variable linear_residual(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                         const Variable& residual, const Tensor& row_scale);
Variable mlp_residual(Context&, const Variable& x, const Variable& weight1, const Variable& bias1,
                      const Variable& weight2, const Variable& bias2, const Variable& residual,
                      const Tensor& row_scale, GeluForm form = GeluForm::kExact);
}  // namespace reference
}  // namespace dtn::ops
