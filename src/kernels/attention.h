// Multi-head self-attention, softmax(q k^T scale) v per head, without a B x H x T x T tensor: a
// block of query rows at a time in per-thread scratch memory. dtype is float32, bfloat16 (softmax
// and accumulation in float32) or float64. A NaN reaches everything that depends on
// it. Results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "dtn/core/dtype.h"
#include "dtn/core/queue.h"

namespace dtn {

struct AttentionForward {
  DType dtype;
  std::int64_t batch, tokens, heads, head_dim;  // B, T, H, D
  double scale;                                 // usually 1 / sqrt(D)
  const void* qkv;  // [B, T, 3, H, D], the layout of timm's qkv projection
  void* out;        // [B, T, H, D]
  void* lse;        // [B, H, T], accumulator type: log-sum-exp of the scaled scores, for backward
};
void run(CpuQueue&, const AttentionForward&);
void run(CudaQueue&, const AttentionForward&);

// Recomputes the probabilities from q, k and lse.
struct AttentionBackward {
  DType dtype;
  std::int64_t batch, tokens, heads, head_dim;
  double scale;
  const void* qkv;   // [B, T, 3, H, D]
  const void* out;   // [B, T, H, D]
  const void* lse;   // [B, H, T]
  const void* dout;  // [B, T, H, D]
  void* dqkv;        // [B, T, 3, H, D], written (=)
};
void run(CpuQueue&, const AttentionBackward&);
void run(CudaQueue&, const AttentionBackward&);

}  // namespace dtn
