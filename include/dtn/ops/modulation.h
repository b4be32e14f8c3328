// Normalizations and products whose gains and shifts are inputs: from a condition, or from another
// part of the network.
//
// Activations are float32, bfloat16 or float64. Gains, shifts and moments of samples and tokens
// have the accumulator type (float32; float64 for float64): they are few, and a rounding error in
// one moves whole channels. Every operation has a reference made of primitive operations.
#pragma once

#include "dtn/autograd/context.h"
#include "dtn/ops/norm.h"

namespace dtn::ops {

// The second half of a modulation: gains, or scales, where gain = 1 + scale.
enum class GainForm { kGains, kScales };

// LayerNorm over C with a gain and a shift for each sample:
//     y = gain_b (x - mean) / sqrt(var + eps) + shift_b
// x [B, T, C], modulation [B, 2 C] in the accumulator type, with the shifts first, then the gains
// or scales. The backward pass adds a gradient that is already accumulated at x in the same pass.
Variable modulated_layer_norm(Context&, const Variable& x, const Variable& modulation, double eps,
                              GainForm form = GainForm::kGains);

// sum = residual + gate_b branch (gated_add) and y = modulated_layer_norm(sum), in one pass.
// residual and branch [B, T, C], gate [B, C] in the accumulator type. Bit-identical to the two
// operations.
SumAndNorm gated_modulated_layer_norm(Context&, const Variable& residual, const Variable& gate,
                                      const Variable& branch, const Variable& modulation,
                                      double eps, GainForm form = GainForm::kGains);

// Positional normalization: each token of x [..., C] by the mean and standard deviation of its
// channels, with the biased variance:
//     y = (x - mean) / std,  std = sqrt(var + eps)
// mean and std [...], without the channels, in the accumulator type. Gradients flow through all
// three results.
struct Standardized {
  Variable y, mean, std;
};
// Returns y, mean and std of every token, see Standardized.
Standardized standardize_tokens(Context&, const Variable& x, double eps);

// Mean and standard deviation sqrt(var + eps), with the biased variance, of each channel of
// x [B, T, C] over the tokens: [B, C] each, in the accumulator type, with gradients.
struct MeanAndDeviation {
  Variable mean, std;
};
// Returns the moments of every channel, see MeanAndDeviation.
MeanAndDeviation channel_moments(Context&, const Variable& x, double eps);

// y = gain x + shift, with one gain and one shift per token: x [..., C], gain and shift [...].
Variable scale_shift_tokens(Context&, const Variable& x, const Variable& gain,
                            const Variable& shift);

// y = x (1 + gain) + shift, with a gain and a shift per element: x [..., C], modulation
// [..., 2 C] in the type of x, with the shifts of a token first, then its gains.
Variable modulate(Context&, const Variable& x, const Variable& modulation);

// y = x (1 + scale_b) + shift_b, with a scale and a shift per channel of each sample: x [B, T, C],
// modulation [B, 2 C] in the accumulator type, with the shifts of a sample first, then its scales.
// Gradients of the modulation are sums over the tokens in the accumulator type. The backward pass
// adds a gradient that is already accumulated at x in the same pass.
Variable modulate_samples(Context&, const Variable& x, const Variable& modulation);

// y = residual + gate_b branch, with a gate per channel of each sample: branch and residual
// [B, T, C], gate [B, C].
Variable gated_add(Context&, const Variable& residual, const Variable& gate,
                   const Variable& branch);

namespace reference {
Variable modulated_layer_norm(Context&, const Variable& x, const Variable& modulation, double eps,
                              GainForm form = GainForm::kGains);
SumAndNorm gated_modulated_layer_norm(Context&, const Variable& residual, const Variable& gate,
                                      const Variable& branch, const Variable& modulation,
                                      double eps, GainForm form = GainForm::kGains);
Standardized standardize_tokens(Context&, const Variable& x, double eps);
MeanAndDeviation channel_moments(Context&, const Variable& x, double eps);
Variable scale_shift_tokens(Context&, const Variable& x, const Variable& gain,
                            const Variable& shift);
Variable modulate(Context&, const Variable& x, const Variable& modulation);
Variable modulate_samples(Context&, const Variable& x, const Variable& modulation);
Variable gated_add(Context&, const Variable& residual, const Variable& gate,
                   const Variable& branch);
}  // namespace reference
}  // namespace dtn::ops
