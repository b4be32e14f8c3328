// Block-sparse multi-head self-attention (BigBird; Zaheer et al., NeurIPS 2020). A sequence is cut
// into n blocks of positions. The first and the last block of queries see all keys. Any other block
// of queries sees the blocks of keys in its row of a table. One softmax covers all keys that a
// query sees:
//    s = scale q k^T    p = softmax(s)    out = p v
// Positions from T to the end of the last block are ignored or, with zero_keys, are keys with score
// 0 and value 0.
// Samples may have different lengths, with padding at the end up to T. A padding token is no key,
// its output and gradients are 0, and its contents are never read. dtype is float32, bfloat16
// (softmax and sums in float32) or float64. Results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct BlockAttentionProblem {
  DType dtype;
  std::int64_t batch, tokens, heads, head_dim;  // B, T, H, D
  double scale;                                 // usually 1 / sqrt(D)
  std::int64_t block, blocks;                   // positions per block, and n
  // [H, n, width]: the blocks that a block of queries sees, in ascending order, with -1 after the
  // last. The rows of the first and the last block are ignored. null: all blocks see all.
  const std::int64_t* seen;
  std::int64_t width;
  bool zero_keys;               // positions from T on are keys
  const std::int64_t* lengths;  // [B]: valid tokens, which come first; null: all

  // Number of tokens in a block, and number of keys.
  std::int64_t tokens_in(std::int64_t b) const {
    return std::clamp<std::int64_t>(tokens - b * block, 0, block);
  }
  std::int64_t keys_in(std::int64_t b) const { return zero_keys ? block : tokens_in(b); }
  // Number of pairs of a query and a key, over a batch and its heads, if all tokens are valid.
  double scores() const {
    std::int64_t all_keys = 0, sum = 0;
    for (std::int64_t b = 0; b < blocks; ++b) all_keys += keys_in(b);
    for (std::int64_t row = 0; row < heads * blocks; ++row) {
      const std::int64_t b = row % blocks;
      std::int64_t keys = all_keys;
      if (seen && b > 0 && b < blocks - 1) {
        keys = 0;
        const std::int64_t* at = seen + row * width;
        for (std::int64_t i = 0; i < width && at[i] >= 0; ++i) keys += keys_in(at[i]);
      }
      sum += tokens_in(b) * keys;
    }
    return static_cast<double>(batch) * static_cast<double>(sum);
  }
};

struct BlockAttentionForward {
  BlockAttentionProblem problem;
  const void* qkv;  // [B, T, 3, H, D]
  void* out;        // [B, T, H, D]
  void* lse;        // [B, H, T], accumulator type: log-sum-exp of the scores, for backward

  double multiply_adds() const {  // scores and values
    return 2 * problem.scores() * static_cast<double>(problem.head_dim);
  }
};
void run(CpuQueue&, const BlockAttentionForward&);
void run(CudaQueue&, const BlockAttentionForward&);

// Recomputes the probabilities from q, k and lse.
struct BlockAttentionBackward {
  BlockAttentionProblem problem;
  const void* qkv;   // [B, T, 3, H, D]
  const void* out;   // [B, T, H, D]
  const void* lse;   // [B, H, T]
  const void* dout;  // [B, T, H, D]
  void* dqkv;        // [B, T, 3, H, D], written (=)

  double multiply_adds() const {  // scores again, two gradients of each product
    return 5 * problem.scores() * static_cast<double>(problem.head_dim);
  }
};
void run(CpuQueue&, const BlockAttentionBackward&);
void run(CudaQueue&, const BlockAttentionBackward&);

}  // namespace dtn
