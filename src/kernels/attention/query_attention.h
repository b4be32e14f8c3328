// Multi-head attention of a few queries over all tokens, softmax(q k^T scale) v per head. It serves
// a block after which only the class token is used. K and V are read once per image and head (B H
// (D T) elements of each); this alone limits the speed. dtype is float32, bfloat16 (scores, softmax
// and sums in float32) or, on the CPU, float64. A NaN reaches every result that depends on it.
// Results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct QueryAttentionForward {
  DType dtype;
  std::int64_t batch, queries, tokens, heads, head_dim;  // B, Q, T, H, D
  double scale;                                          // usually 1 / sqrt(D)
  const void* q;                                         // [B, Q, H, D]
  const void* kv;                                        // [B, T, 2, H, D]
  void* out;                                             // [B, Q, H, D]
  void* lse;  // [B, H, Q], accumulator type: log-sum-exp of the scaled scores, for backward

  double multiply_adds() const {  // scores and values
    return 2.0 * static_cast<double>(batch * queries * tokens) *
           static_cast<double>(heads * head_dim);
  }
};
void run(CpuQueue&, const QueryAttentionForward&);
// D <= 256. The backward pass takes as many queries as fit in the device's shared memory. With the
// minimum of 99 KiB these are 12, with D <= 128 19, and with D <= 64 28.
void run(CudaQueue&, const QueryAttentionForward&);

// Recomputes the probabilities from q, k and lse.
struct QueryAttentionBackward {
  DType dtype;
  std::int64_t batch, queries, tokens, heads, head_dim;
  double scale;
  const void* q;     // [B, Q, H, D]
  const void* kv;    // [B, T, 2, H, D]
  const void* out;   // [B, Q, H, D]
  const void* lse;   // [B, H, Q]
  const void* dout;  // [B, Q, H, D]
  void* dq;          // [B, Q, H, D], written (=)
  void* dkv;         // [B, T, 2, H, D], written (=)

  double multiply_adds() const {  // scores again, two gradients of each product
    return 5.0 * static_cast<double>(batch * queries * tokens) *
           static_cast<double>(heads * head_dim);
  }
};
void run(CpuQueue&, const QueryAttentionBackward&);
void run(CudaQueue&, const QueryAttentionBackward&);

}  // namespace dtn
