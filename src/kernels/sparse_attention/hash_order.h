// Sorts positions by their hash, see hashed_attention.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/sparse_attention/attention_blocks.h"
#include "kernels/sparse_attention/hashed_attention.h"

namespace dtn::DTN_ISA {

// Returns the argmax of [z, -z], the lowest index on ties; z is [half].
template <class A>
std::int64_t bucket_of(const A* z, std::int64_t half) {
  std::int64_t best = 0;
  A top = z[0];
  for (std::int64_t i = 1; i < 2 * half; ++i) {
    const A value = i < half ? z[i] : -z[i - half];
    if (value > top) top = value, best = i;
  }
  return best;
}

// Computes the buckets of the first `count` positions in each round, [R, count]. rotations is
// [D, R half].
template <class S>
void find_buckets(Scratch::Scope& scratch, const HashedAttentionProblem& p,
                  const PositionRows<const S>& q, std::int64_t count, const float* rotations,
                  std::int64_t* buckets) {
  using A = AccumulatorOf<S>;
  const std::int64_t half = p.buckets / 2, directions = p.hashes * half, dim = p.head_dim;
  A* z = scratch.take<A>(directions);
  A* columns = scratch.take<A>(directions * dim);  // rotations, [R half, D]
  for (std::int64_t j = 0; j < directions; ++j) {
    for (std::int64_t d = 0; d < dim; ++d) {
      columns[j * dim + d] = static_cast<A>(rotations[d * directions + j]);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const S* row = i < q.limit ? q.first + i * q.ld : q.spare;
    for (std::int64_t j = 0; j < directions; ++j) {
      z[j] = row_product<A>(row, columns + j * dim, dim);
    }
    for (std::int64_t r = 0; r < p.hashes; ++r) {
      buckets[r * count + i] = bucket_of(z + r * half, half);
    }
  }
}

// Fills order [R, N] in each round with the first `count` positions, sorted by (bucket, position).
template <class S>
void sort_by_hash(Scratch::Scope& scratch, const HashedAttentionProblem& p,
                  const PositionRows<const S>& q, std::int64_t count, const float* rotations,
                  std::int64_t* order) {
  auto* buckets = scratch.take<std::int64_t>(p.hashes * count);
  auto* next = scratch.take<std::int64_t>(p.buckets + 1);  // index of each bucket's next position
  find_buckets(scratch, p, q, count, rotations, buckets);
  for (std::int64_t r = 0; r < p.hashes; ++r) {
    const std::int64_t* bucket = buckets + r * count;
    std::fill_n(next, p.buckets + 1, std::int64_t{0});
    for (std::int64_t i = 0; i < count; ++i) ++next[bucket[i] + 1];
    for (std::int64_t b = 0; b < p.buckets; ++b) next[b + 1] += next[b];
    for (std::int64_t i = 0; i < count; ++i) order[r * p.positions + next[bucket[i]]++] = i;
  }
}

}  // namespace dtn::DTN_ISA
