// Hashed attention on tensor cores, for the problems of has_hashed_tiles().
#pragma once

#include "kernels/sparse_attention/hashed_attention.h"

namespace dtn::attention {

// Returns true for one round of the variant clean, bfloat16 in rows that begin at multiples of 16
// bytes, and heads of 8, 16, 24, 32, 56 or 64 columns.
bool has_hashed_tiles(const HashedAttentionProblem&, const void* qk, const void* v,
                      const void* out);
// inverse_norm [B, H, N]: 1 / |k| by position. `order` must already be computed.
void hashed_tiles_forward(CudaQueue&, const HashedAttentionForward&, const float* inverse_norm);
// delta [B, H, N]: sum of dout out, by position.
void hashed_tiles_backward(CudaQueue&, const HashedAttentionBackward&, const float* inverse_norm,
                           const float* delta);

}  // namespace dtn::attention
