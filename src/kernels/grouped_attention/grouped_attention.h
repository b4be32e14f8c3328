// Multi-head attention between any queries and keys of a sample, or inside groups of its tokens,
// with a bias for each head's scores:
//    softmax(scale q k^T + bias + penalty) v
// The penalty is kRegionPenalty for two tokens of a group in different regions, and else 0. No
// array holds all scores. Tokens are read and written in place: no array is sorted by groups. dtype
// is float32, bfloat16 (scores, softmax and sums in float32) or, on the CPU, float64. A NaN reaches
// every result that depends on it. Results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// Heads in the rows of an array [B, tokens of a sample, ld]. Head h of a row is columns
// [first + h stride, first + h stride + D).
template <class Pointer>
struct HeadsOfRows {
  Pointer rows;
  std::int64_t ld, first, stride;
};

struct GroupedAttentionProblem {
  DType dtype;
  std::int64_t batch, heads;           // B, H
  std::int64_t groups, queries, keys;  // G of a sample; queries and keys of a group
  std::int64_t key_dim, value_dim;     // Dk, Dv
  double scale;                        // usually 1 / sqrt(Dk)
  const std::int64_t* tokens;          // [G, n]: token index of the i-th of a group; null: G = 1
  const float* regions;                // [G, n], only with tokens; null: one region
  const void* bias;                    // [H, queries, keys], accumulator type; null: none
  HeadsOfRows<const void*> q, k, v;    // [B, G queries, *], [B, G keys, *] twice

  static constexpr double kRegionPenalty = -100;
  // Without keys or columns there is nothing to attend to.
  bool is_empty() const {
    return batch * groups * heads * queries * keys * key_dim * value_dim == 0;
  }
  double scores() const {
    return static_cast<double>(batch * groups * queries) * static_cast<double>(keys * heads);
  }
};

struct GroupedAttentionForward {
  GroupedAttentionProblem problem;
  void* out;  // [B, G queries, H, Dv]
  void* lse;  // [B, G, H, queries], accumulator type: log-sum-exp of the scores, for backward

  double multiply_adds() const {  // scores and values
    return problem.scores() * static_cast<double>(problem.key_dim + problem.value_dim);
  }
};
void run(CpuQueue&, const GroupedAttentionForward&);
// Dk, Dv <= kMaxGroupedHead, at most 65535 heads.
void run(CudaQueue&, const GroupedAttentionForward&);

// Recomputes the probabilities from q, k and lse.
struct GroupedAttentionBackward {
  GroupedAttentionProblem problem;
  const void* out;                // [B, G queries, H, Dv]
  const void* lse;                // [B, G, H, queries]
  const void* dout;               // [B, G queries, H, Dv]
  HeadsOfRows<void*> dq, dk, dv;  // like q, k, v; written (=) in the columns of heads alone
  void* dbias;                    // [H, queries, keys] +=, accumulator type; null: not needed

  double multiply_adds() const {  // scores again, two gradients of each product
    return problem.scores() * static_cast<double>(3 * problem.key_dim + 2 * problem.value_dim);
  }
};
void run(CpuQueue&, const GroupedAttentionBackward&);
void run(CudaQueue&, const GroupedAttentionBackward&);

// Maximum head size (Dk and Dv) on CUDA devices.
inline constexpr std::int64_t kMaxGroupedHead = 64;

}  // namespace dtn
