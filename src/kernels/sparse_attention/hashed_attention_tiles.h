// What hashed_attention.cu sends to the tensor cores.
#pragma once

#include "kernels/sparse_attention/hashed_attention.h"

namespace dtn::attention {

// One round of the variant clean, bfloat16 in rows that begin at multiples of 16 bytes, heads of 8,
// 16, 24, 32, 56 or 64 columns.
bool has_hashed_tiles(const HashedAttentionProblem&, const void* qk, const void* v,
                      const void* out);
// inverse_norm [B, H, N]: 1 / |k| by position. `order` has been made.
void hashed_tiles_forward(CudaQueue&, const HashedAttentionForward&, const float* inverse_norm);
// delta [B, H, N]: sums of dout out by position.
void hashed_tiles_backward(CudaQueue&, const HashedAttentionBackward&, const float* inverse_norm,
                           const float* delta);

}  // namespace dtn::attention
