// The sizes attention works in, fixed by the problem's shape alone.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_softmax.h"

namespace dtn::DTN_ISA {

// Keys are taken in chunks of at most kMaxKeys, so that a block of scores stays in the L2 cache for
// any T. kScoreLd, its row stride, leaves room for the last tile of rows to overreach and is no
// power of two, which would map a column of scores to few cache sets.
inline constexpr std::int64_t kMaxKeys = 512;
inline constexpr int kScoreLd = 528;
static_assert(kScoreLd % 16 == 0 && kScoreLd >= kMaxKeys + kTileRows<1>);

// A tile or a vector of rows may start at the last token: this many more can be read.
inline constexpr std::int64_t kRowSlack = 16;
static_assert(kRowSlack >= kTileRows<1> && kRowSlack >= kWidth<float>);

template <class S>
struct AttentionShape {
  using E = ElementFor<S>;
  using A = Accumulator<E>;

  std::int64_t tokens, heads, dim;
  std::int64_t keys;         // per chunk
  std::int64_t rows;         // per block of queries
  std::int64_t padded_dim;   // D in whole vectors
  std::int64_t dim_vectors;  // padded_dim in vectors
  std::int64_t dim_steps;    // D in elements of E
  std::int64_t qkv_ld;       // between tokens of qkv
  std::int64_t out_ld;       // between tokens of out
  A scale;                   // log2(e) included

  template <class Args>
  AttentionShape(const Args& args, std::int64_t max_rows) {
    tokens = args.tokens, heads = args.heads, dim = args.head_dim;
    keys = round_up(divide_up(tokens, divide_up(tokens, kMaxKeys)), 16);
    rows = max_rows < tokens ? max_rows : tokens;
    padded_dim = round_up(dim, kWidth<E>);
    dim_vectors = padded_dim / kWidth<E>;
    dim_steps = divide_up(dim, kDepth<E>);
    qkv_ld = 3 * heads * dim;
    out_ld = heads * dim;
    scale = static_cast<A>(args.scale * kLog2E);
  }
  std::int64_t padded_tokens() const { return tokens + kRowSlack; }
  std::int64_t qkv_offset(std::int64_t image, std::int64_t head) const {
    return image * tokens * qkv_ld + head * dim;
  }
  std::int64_t out_offset(std::int64_t image, std::int64_t head) const {
    return image * tokens * out_ld + head * dim;
  }
};

// The rows of the head that this thread will probably do next, asked for a few at a time while it
// computes: each row is a page or so from the last, which the processor does not foresee.
class RowPrefetch {
 public:
  RowPrefetch() = default;
  RowPrefetch(std::int64_t rows, std::int64_t bytes_per_row) : left_(rows), bytes_(bytes_per_row) {}

  void add(const void* first_row, std::int64_t ld_bytes) {
    rows_[arrays_] = static_cast<const char*>(first_row);
    ld_[arrays_++] = ld_bytes;
  }

  [[gnu::always_inline]] void advance(std::int64_t rows) {
    for (; rows > 0 && left_ > 0; --rows, --left_) {
      for (int a = 0; a < arrays_; ++a) {
        for (std::int64_t b = 0; b < bytes_; b += 64) __builtin_prefetch(rows_[a] + b, 0, 2);
        rows_[a] += ld_[a];
      }
    }
  }

 private:
  const char* rows_[5] = {};
  std::int64_t ld_[5] = {};
  int arrays_ = 0;
  std::int64_t left_ = 0, bytes_ = 0;
};

// So many that the tiles of one pass over all rows, by panels of keys, fetch every row.
inline std::int64_t prefetch_rows_per_tile(std::int64_t vectors) {
  return divide_up(kTileVectors / kMaxTileWidth + 2, divide_up(vectors, kMaxTileWidth));
}

// Added to the last vector of scores: 0 for the first `valid` lanes, -infinity for the rest.
template <class A>
inline Vec<A> padding_bias(std::int64_t valid) {
  A lanes[kLanes<A>];
  for (int i = 0; i < kLanes<A>; ++i)
    lanes[i] = i < valid ? A{0} : -static_cast<A>(__builtin_inf());
  return load(lanes);
}

}  // namespace dtn::DTN_ISA
