// Normalizations and products whose gains and shifts come from elsewhere: from a condition, or from
// another part of the network.
//
// Activations are float32, bfloat16 or float64. Gains, shifts and moments of samples and tokens
// have the accumulator type (float32; float64 for float64): they are few, and what rounds them
// moves whole channels. Every operation has a reference in primitive operations.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// y = gain_b (x - mean) / sqrt(var + eps) + shift_b, LayerNorm over C with a gain and a shift for
// each sample: x [B, T, C], modulation [B, 2 C] with the shifts first, then the gains. A gradient
// that already waits at x is added in the same pass.
Variable modulated_layer_norm(Context&, const Variable& x, const Variable& modulation, double eps);

// Positional normalization: each token of x [..., C] by its own mean and standard deviation over
// the channels, y = (x - mean) / std, std = sqrt(var + eps) with the biased variance. mean and std
// [...], without the channels, in the accumulator type; gradients flow through all three.
struct Standardized {
  Variable y, mean, std;
};
Standardized standardize_tokens(Context&, const Variable& x, double eps);

// The mean and the standard deviation sqrt(var + eps), with the biased variance, of each channel of
// x [B, T, C] over the tokens: [B, C] each, in the accumulator type, with gradients.
struct MeanAndDeviation {
  Variable mean, std;
};
MeanAndDeviation channel_moments(Context&, const Variable& x, double eps);

// y = gain x + shift with one gain and one shift for each token: x [..., C], gain and shift [...].
Variable scale_shift_tokens(Context&, const Variable& x, const Variable& gain,
                            const Variable& shift);

// y = x (1 + gain) + shift with a gain and a shift for each element: x [..., C], modulation
// [..., 2 C], the type of x, with the shifts of a token first, then its gains.
Variable modulate(Context&, const Variable& x, const Variable& modulation);

// y = residual + gate_b branch, with a gate for each channel of each sample: branch and residual
// [B, T, C], gate [B, C].
Variable gated_add(Context&, const Variable& residual, const Variable& gate,
                   const Variable& branch);

namespace reference {
Variable modulated_layer_norm(Context&, const Variable& x, const Variable& modulation, double eps);
Standardized standardize_tokens(Context&, const Variable& x, double eps);
MeanAndDeviation channel_moments(Context&, const Variable& x, double eps);
Variable scale_shift_tokens(Context&, const Variable& x, const Variable& gain,
                            const Variable& shift);
Variable modulate(Context&, const Variable& x, const Variable& modulation);
Variable gated_add(Context&, const Variable& residual, const Variable& gate,
                   const Variable& branch);
}  // namespace reference
}  // namespace dtn::ops
