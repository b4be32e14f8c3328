// Block sizes of attention. They depend on the problem's shape alone.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_softmax.h"

namespace dtn::DTN_ISA {

// kMaxKeys is the maximum number of keys per chunk, so that a block of scores stays in the L2 cache
// for any T. kScoreLd is the row stride of the scores. It leaves room for the last tile to reach
// past the last key. It is not a power of two, which would map a column of scores to few cache
// sets.
inline constexpr std::int64_t kMaxKeys = 512;
inline constexpr int kScoreLd = 528;
static_assert(kScoreLd % 16 == 0 && kScoreLd >= kMaxKeys + kTileRows<1>);

// A tile or a vector of rows may start at the last row, so this many more rows must be readable.
inline constexpr std::int64_t kRowSlack = 16;
static_assert(kRowSlack >= kTileRows<1> && kRowSlack >= kWidth<float>);

// Sizes of one head of one sample, or of one group of its tokens.
struct AttentionSizes {
  std::int64_t queries, keys;
  std::int64_t key_dim, value_dim;  // D of queries and keys, and of values and outputs
  double scale;
};

template <class S>
struct AttentionShape {
  using E = ElementFor<S>;
  using A = Accumulator<E>;

  struct Width {
    std::int64_t dim;
    std::int64_t padded;   // rounded up to whole vectors
    std::int64_t vectors;  // vectors in padded
    std::int64_t steps;    // dim in elements of E

    explicit Width(std::int64_t d)
        : dim(d),
          padded(round_up(d, kWidth<E>)),
          vectors(padded / kWidth<E>),
          steps(divide_up(d, kDepth<E>)) {}
  };

  std::int64_t queries, keys;
  Width key, value;
  std::int64_t chunk;  // keys per chunk
  std::int64_t rows;   // queries per block
  A scale;             // includes log2(e)

  // max_rows(chunk) returns the maximum number of rows per block.
  template <class MaxRows>
  AttentionShape(const AttentionSizes& sizes, MaxRows&& max_rows)
      : queries(sizes.queries),
        keys(sizes.keys),
        key(sizes.key_dim),
        value(sizes.value_dim),
        chunk(round_up(divide_up(keys, divide_up(keys, kMaxKeys)), 16)),
        rows(max_rows(chunk)),
        scale(static_cast<A>(sizes.scale * kLog2E)) {
    if (queries < rows) rows = queries;
  }
  std::int64_t padded_queries() const { return queries + kRowSlack; }
};

// Prefetches the rows of the head that this thread probably computes next, including the rows to be
// written. It requests a few rows at a time during the computation. The processor does not prefetch
// them itself, because each row is about a page from the last one.
template <class Rows>
class RowPrefetch {
 public:
  void add(const Rows& rows, std::int64_t count, std::int64_t bytes_per_row) {
    arrays_[size_++] = {rows, count, bytes_per_row};
    if (count > end_) end_ = count;
  }

  // Number of rows to prefetch per tile, in a pass over `queries` rows of scores of `keys` each.
  // All rows are then requested by the end of the pass.
  template <class A>
  std::int64_t rows_per_tile(std::int64_t queries, std::int64_t keys) const {
    const std::int64_t vectors = queries * divide_up(keys, kLanes<A>);
    return divide_up(end_ * kTileVectors, vectors < 1 ? 1 : vectors);
  }

  [[gnu::always_inline]] void advance(std::int64_t rows) {
    for (; rows > 0 && at_ < end_; --rows, ++at_) {
      for (int a = 0; a < size_; ++a) {
        if (at_ >= arrays_[a].count) continue;
        const auto* row = reinterpret_cast<const char*>(arrays_[a].rows(at_));
        for (std::int64_t b = 0; b < arrays_[a].bytes; b += 64) __builtin_prefetch(row + b, 0, 2);
      }
    }
  }

 private:
  struct Array {
    Rows rows;
    std::int64_t count, bytes;
  };
  Array arrays_[8] = {};
  int size_ = 0;
  std::int64_t at_ = 0, end_ = 0;
};

// Term for the last vector of scores: 0 in the first `valid` lanes, -infinity in the rest.
template <class A>
inline Vec<A> padding_bias(std::int64_t valid) {
  A lanes[kLanes<A>];
  for (int i = 0; i < kLanes<A>; ++i)
    lanes[i] = i < valid ? A{0} : -static_cast<A>(__builtin_inf());
  return load(lanes);
}

}  // namespace dtn::DTN_ISA
