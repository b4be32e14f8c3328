// Attention among tokens that a random hash finds alike (Reformer; Kitaev, Kaiser, Levskaya, ICLR
// 2020). Queries and keys are one projection. Of each head and round:
//   z = q . rotations,  bucket = argmax of [z, -z], the lowest on ties
// Positions 0..N-1 are sorted by (bucket, position) and cut into `buckets` chunks, N / buckets long,
// and a query sees its own chunk and the one before; that before the first of a round is the last of
// the round before, cyclically. The softmax is over the keys of all rounds; a key that is seen twice
// counts twice. No gradient goes through the order. In its two variants:
//   clean  the score is q . k / |k|, and 0 where k is; a query sees itself only where it sees
//          nothing else. Samples may be of different lengths, padded at the end up to T: pads come
//          behind all buckets, a pad is no key, its output and gradients are 0, and what it holds is
//          never read. So it is with positions from T on.
//   lra    the score is sqrt(D) q . k, itself included; pads are tokens as others are, and positions
//          from T on have q = k = v = 0. Outputs [H, N, D] are the elements of [N, H, D], of which T
//          rows are returned.
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
  const std::int64_t* lengths;  // [B]: tokens that count, from the first on; null: all. Not in lra

  std::int64_t chunk() const { return positions / buckets; }
  // Pairs of a query and a key, all of a batch and its heads.
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
  // [B, H, N], accumulator type: log-sum-exp of the scores, for backward; infinity where a query
  // sees itself alone.
  void* lse;
  std::int64_t* order;  // [B, H, R, N]: the sorted positions of each round, as far as they count

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

  double multiply_adds() const {  // the scores again, and two gradients of each product
    return 5 * problem.scores() * static_cast<double>(problem.head_dim);
  }
};
void run(CpuQueue&, const HashedAttentionBackward&);
void run(CudaQueue&, const HashedAttentionBackward&);

}  // namespace dtn
