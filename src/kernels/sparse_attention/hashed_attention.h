// Attention among tokens with the same random hash (Reformer; Kitaev, Kaiser, Levskaya, ICLR 2020).
// Queries and keys are one projection. For each head and round:
//    z = q . rotations,  bucket = argmax of [z, -z], the lowest index on ties
// Positions 0..N-1 are sorted by (bucket, position) and cut into `buckets` chunks of N / buckets
// positions. A query sees its own chunk and the chunk before. The chunk before the first one of a
// round is the last one of the round before, cyclically. The softmax is over the keys of all
// rounds; a key that is seen twice counts twice. No gradient passes through the order. There are
// two variants:
//    clean  The score is q . k / |k|, and 0 if k is 0. A query sees itself only if it sees nothing
//           else. Samples may have different lengths, with padding at the end up to T. A padding
//           token comes after all buckets and is no key. Its output and gradients are 0, and its
//           contents are never read. The same holds for positions from T on.
//    lra    The score is sqrt(D) q . k, also of a query with itself. Padding tokens are like other
//           tokens, and positions from T on have q = k = v = 0. The elements of the outputs
//           [H, N, D] are taken as [N, H, D] without a transpose, and its first T rows returned.
// dtype is float32, bfloat16 (softmax and sums in float32) or float64. Results do not depend on the
// number of threads.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct HashedAttentionProblem {
  DType dtype;
  std::int64_t batch, tokens, heads, head_dim;  // B, T, H, D
  std::int64_t positions;                       // N, a multiple of `buckets`, at least T
  std::int64_t hashes, buckets;                 // R rounds, an even number of buckets
  bool lra;
  const std::int64_t* lengths;  // [B]: valid tokens, which come first; null: all. Not in lra

  std::int64_t chunk() const { return positions / buckets; }
  // Number of pairs of a query and a key, over a batch and its heads.
  double scores() const {
    return 2.0 * static_cast<double>(batch * heads * hashes) * static_cast<double>(positions) *
           static_cast<double>(chunk());
  }
};

struct HashedAttentionForward {
  HashedAttentionProblem problem;
  const void* qk;          // [B, T, H, D]
  const void* v;           // [B, T, H, D]
  const float* rotations;  // [D, R, buckets / 2]
  void* out;               // [B, T, H, D]
  // [B, H, N], accumulator type: log-sum-exp of the scores, for backward; infinity if a query sees
  // only itself.
  void* lse;
  std::int64_t* order;  // [B, H, R, N]: the valid positions of each round, sorted

  double multiply_adds() const {  // hashes, scores and values
    const HashedAttentionProblem& p = problem;
    const std::int64_t vectors = p.hashes * (p.buckets / 2);
    const double hash =
        static_cast<double>(p.batch * p.heads * p.positions) * static_cast<double>(vectors);
    return (2 * p.scores() + hash) * static_cast<double>(p.head_dim);
  }
};
void run(CpuQueue&, const HashedAttentionForward&);
void run(CudaQueue&, const HashedAttentionForward&);

// Recomputes the probabilities from q, k and lse.
struct HashedAttentionBackward {
  HashedAttentionProblem problem;
  const void *qk, *v;
  const void* out;
  const void* lse;
  const std::int64_t* order;
  const void* dout;  // [B, T, H, D]
  void *dqk, *dv;    // [B, T, H, D], written (=)

  double multiply_adds() const {  // scores again, two gradients of each product
    return 5 * problem.scores() * static_cast<double>(problem.head_dim);
  }
};
void run(CpuQueue&, const HashedAttentionBackward&);
void run(CudaQueue&, const HashedAttentionBackward&);

}  // namespace dtn
