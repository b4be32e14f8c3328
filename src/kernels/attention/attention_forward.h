// Forward pass of one head: chunks of keys outside, blocks of query rows inside; the softmax is
// carried from chunk to chunk by its largest score and its sum (with one chunk, T <= 512, there is
// nothing to carry). The division by the sum is left to the output rows.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_bias.h"

namespace dtn::DTN_ISA {

template <class S>
class ForwardHead {
 public:
  using Shape = AttentionShape<S>;
  using E = typename Shape::E;
  using A = typename Shape::A;

  // At T = 197 the scores of a block just fit in the L1 cache.
  static constexpr std::int64_t kMaxRows = 48;
  static_assert(kMaxRows % kRowAlign == 0 && kMaxRows % kWidth<E> == 0);

  // `next` is fetched into the cache on the way.
  ForwardHead(Scratch::Scope& scratch, const Shape& shape, const HeadBias<A>& bias,
              const RowPrefetch& next)
      : shape_(shape), bias_(bias), next_(next) {
    std::int64_t t = shape.padded_tokens();
    keys_ = scratch.take<E>(shape.dim_steps * shape.keys);
    values_ = scratch.take<E>(shape.keys * shape.padded_dim);
    queries_ = scratch.take<E>(shape.dim_steps * kMaxRows);
    scores_ = scratch.take<A>(kMaxRows * kScoreLd);
    largest_ = scratch.take<A>(t);
    sum_ = scratch.take<A>(t);
    rescale_ = scratch.take<A>(kMaxRows);
    if (shape.keys < shape.tokens) acc_ = scratch.take<A>(t * shape.padded_dim);
  }

  // q, k, v: [T, D] with rows qkv_ld apart; out [T, D] with rows out_ld apart; lse [T].
  void run(const S* q, const S* k, const S* v, S* out, A* lse) {
    for (std::int64_t key = 0; key < shape_.tokens; key += shape_.keys) {
      std::int64_t left = shape_.tokens - key;
      chunk_ = left < shape_.keys ? left : shape_.keys;
      first_ = key == 0;
      last_ = left <= shape_.keys;
      if (bias_) bias_.begin_chunk(key, chunk_);
      pack_panels(k + key * shape_.qkv_ld, shape_.qkv_ld, chunk_, vectors(), shape_.dim, keys_);
      pack_rows(v + key * shape_.qkv_ld, shape_.qkv_ld, chunk_, shape_.dim, shape_.padded_dim,
                values_);
      for (std::int64_t row = 0; row < shape_.tokens; row += shape_.rows) {
        left = shape_.tokens - row;
        std::int64_t rows = left < shape_.rows ? left : shape_.rows;
        pack_columns(q + row * shape_.qkv_ld, shape_.qkv_ld, rows, round_up(rows, kWidth<E>),
                     shape_.dim, queries_, kMaxRows);
        if (bias_) {
          score_biased(row, rows);
        } else {
          score<false>(row, rows);
        }
        softmax_rows<E>(scores_, kScoreLd, rows, vectors() * kWidth<E>, first_,
                        {largest_ + row, sum_ + row, rescale_});
        weigh(row, rows, out + row * shape_.out_ld);
      }
    }
    for_each_vector<A>(shape_.tokens, [&](std::int64_t i, auto n) {
      store_n(lse + i, load(largest_ + i) * static_cast<A>(kLn2) + log_positive(load(sum_ + i)), n);
    });
  }

 private:
  std::int64_t vectors() const { return divide_up(chunk_, kWidth<E>); }

  // Out of line, so that it does not keep the compiler from inlining the usual case.
  [[gnu::noinline]] void score_biased(std::int64_t first_row, std::int64_t rows) {
    score<true>(first_row, rows);
  }

  // scores = q k^T scale and perhaps the positional bias, -infinity where there is no key.
  template <bool kBiased>
  void score([[maybe_unused]] std::int64_t first_row, std::int64_t rows) {
    Vec<A> padding = padding_bias<A>(chunk_ - (vectors() - 1) * kWidth<E>);
    std::int64_t end_column = vectors() * kWidth<E>;
    std::int64_t prefetch_rows = prefetch_rows_per_tile(vectors());
    multiply<E, 1, kMaxRows>(
        queries_, keys_, {shape_.dim_steps, 0}, rows, vectors(), FromZero{},
        [&]<class Vector, int R, int V>(Vector(&acc)[R][V], std::int64_t row, std::int64_t column) {
          next_.advance(prefetch_rows);
          A* s = scores_ + row * kScoreLd + column;
          Vec<A> last_padding = column + V * kWidth<E> == end_column ? padding : Vec<A>{};
#pragma GCC unroll 24
          for (int r = 0; r < R; ++r) {
            [[maybe_unused]] const A *x = nullptr, *y = nullptr;
            if constexpr (kBiased) {
              x = bias_.x_terms(first_row + row + r) + column;
              y = bias_.y_terms(first_row + row + r) + column;
            }
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) {
              Vec<A> z = acc[r][v] * shape_.scale;
              if constexpr (kBiased) {
                z += load(x + v * kWidth<E>) + load(y + v * kWidth<E>);
              } else if (v == V - 1) {
                z += last_padding;
              }
              store(s + r * kScoreLd + v * kWidth<E>, z);
            }
          }
        });
  }

  // out = p v / sum, after the last chunk; before that acc_ = acc_ rescale + p v.
  void weigh(std::int64_t first_row, std::int64_t rows, S* out) {
    A* carried = acc_ ? acc_ + first_row * shape_.padded_dim : nullptr;
    const E* p = reinterpret_cast<const E*>(scores_);
    multiply<E, kScoreLd, 1>(
        p, values_, {divide_up(chunk_, kDepth<E>), shape_.padded_dim}, rows, shape_.dim_vectors,
        [&]<class Vector, int R, int V>(Vector(&acc)[R][V], std::int64_t row, std::int64_t column) {
          FromZero{}(acc, row, column);
          if (first_) return;
          for (int r = 0; r < R && row + r < rows; ++r) {
            for (int v = 0; v < V; ++v) {
              acc[r][v] = rescale_[row + r] *
                          load(carried + (row + r) * shape_.padded_dim + column + v * kWidth<E>);
            }
          }
        },
        [&]<class Vector, int R, int V>(Vector(&acc)[R][V], std::int64_t row, std::int64_t column) {
          if (!last_) {
            store_tile(acc, carried + row * shape_.padded_dim + column, shape_.padded_dim,
                       rows - row, shape_.padded_dim - column);
            return;
          }
#pragma GCC unroll 24
          for (int r = 0; r < R; ++r) {
            A inverse = 1 / sum_[first_row + row + r];
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) acc[r][v] *= inverse;
          }
          store_tile(acc, out + row * shape_.out_ld + column, shape_.out_ld, rows - row,
                     shape_.dim - column);
        });
  }

  const Shape& shape_;
  HeadBias<A> bias_;
  RowPrefetch next_;
  std::int64_t chunk_ = 0;           // keys of this chunk
  bool first_ = true, last_ = true;  // chunk
  E* keys_;                          // panels of k^T
  E* values_;                        // [keys / kDepth, padded_dim]
  E* queries_;                       // [dim_steps, kMaxRows]
  A* scores_;                        // [kMaxRows, kScoreLd], scores, then probabilities as E
  A* largest_;                       // [T]
  A* sum_;                           // [T]
  A* rescale_;                       // [kMaxRows]
  A* acc_ = nullptr;                 // [T, padded_dim], only with several chunks
};

}  // namespace dtn::DTN_ISA
