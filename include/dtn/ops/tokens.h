// Conversion of images to tokens, and operations on whole tokens.
#pragma once

#include "dtn/ops/primitive.h"

namespace dtn::ops {

// images [B, channels, height, width] (float32, or float64), weight [C, channels, P, P] and bias
// [C] as in a convolution with stride P. Returns tokens [B, (height / P) (width / P), C] in
// `dtype`, row by row. Images get no gradient.
Variable patch_embed(Context&, const Tensor& images, const Variable& weight, const Variable& bias,
                     DType dtype);

// tokens [B, T, C] + positions [1, T, C].
Variable add_positions(Context&, const Variable& tokens, const Variable& positions);

// Prepends tokens that all samples share, such as a class token: first [1, n, C], tokens [B, T, C]
// -> [B, n + T, C].
Variable prepend_tokens(Context&, const Variable& tokens, const Variable& first);

// The first token of each sample, [B, T, C] -> [B, C].
Variable first_token(Context&, const Variable& tokens);

// The first `count` tokens of each sample, [B, T, C] -> [B, count, C].
Variable first_tokens(Context&, const Variable& tokens, std::int64_t count);

// Mean over the tokens, [B, T, C] -> [B, C].
Variable mean_token(Context&, const Variable& tokens);

// Converts activations between float32, bfloat16 and float64.
using primitive::cast;

namespace reference {
Variable patch_embed(Context&, const Tensor& images, const Variable& weight, const Variable& bias);
Variable add_positions(Context&, const Variable& tokens, const Variable& positions);
Variable prepend_tokens(Context&, const Variable& tokens, const Variable& first);
Variable first_token(Context&, const Variable& tokens);
Variable mean_token(Context&, const Variable& tokens);
}  // namespace reference
}  // namespace dtn::ops
