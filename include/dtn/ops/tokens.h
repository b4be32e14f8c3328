// From images to tokens, and what is done to whole tokens on the way to the head.
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

// Puts the class token [1, 1, C] before the tokens [B, T, C]: [B, T + 1, C].
Variable prepend_class_token(Context&, const Variable& tokens, const Variable& class_token);

// The first token of each sample, [B, T, C] -> [B, C].
Variable first_token(Context&, const Variable& tokens);

// The same with its dimension of tokens kept, [B, T, C] -> [B, 1, C].
Variable class_token_of(Context&, const Variable& tokens);

// The mean over tokens, [B, T, C] -> [B, C].
Variable mean_token(Context&, const Variable& tokens);

// Conversion of activations between float32, bfloat16 and float64.
using primitive::cast;

namespace reference {
Variable patch_embed(Context&, const Tensor& images, const Variable& weight, const Variable& bias);
Variable add_positions(Context&, const Variable& tokens, const Variable& positions);
Variable prepend_class_token(Context&, const Variable& tokens, const Variable& class_token);
Variable first_token(Context&, const Variable& tokens);
Variable mean_token(Context&, const Variable& tokens);
}  // namespace reference
}  // namespace dtn::ops
