// Forward pass of one head. The outer loop runs over chunks of keys, the inner loop over blocks of
// query rows. The softmax carries each row's largest score and its sum from chunk to chunk. With
// one chunk (T <= 512) it carries nothing. The division by the sum is done on the output rows.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_bias.h"
#include "kernels/attention/attention_mask.h"

namespace dtn::DTN_ISA {

// Rows: access to the rows of tokens, by StridedRows, MappedRows or PickedRows. Bias: the terms
// added to the scores, by HeadBias, TableBias or SelfMask. Out: the type of the output rows. Mask:
// dropout of the weights, by NoDropout or DropoutMask.
template <class S, template <class> class Rows, class Bias, class Out = Rows<S>,
          class Mask = NoDropout>
class ForwardHead {
 public:
  using Shape = AttentionShape<S>;
  using E = typename Shape::E;
  using A = typename Shape::A;

  struct Arrays {
    Rows<const S> q, k, v;  // [Q, Dk], [S, Dk], [S, Dv]
    Out out;                // [Q, Dv]
    A* lse;                 // [Q]
  };

  // The scores of a block stay in the L1 cache: 48 rows of 197 keys just fit.
  static constexpr std::int64_t kMaxRows = 96;
  static_assert(kMaxRows % kRowAlign == 0 && kMaxRows % kWidth<E> == 0);
  static std::int64_t max_rows(std::int64_t chunk) { return chunk <= 128 ? 72 : 48; }

  // Prefetches `next` into the cache during run().
  ForwardHead(Scratch::Scope& scratch, const Shape& shape, const Bias& bias,
              const RowPrefetch<Rows<const S>>& next, const Mask& mask = {})
      : shape_(shape), bias_(bias), next_(next), mask_(mask) {
    std::int64_t t = shape.padded_queries();
    keys_ = scratch.take<E>(shape.key.steps * shape.chunk);
    values_ = scratch.take<E>(shape.chunk * shape.value.padded);
    queries_ = scratch.take<E>(shape.key.steps * kMaxRows);
    scores_ = scratch.take<A>(kMaxRows * kScoreLd);
    largest_ = scratch.take<A>(t);
    sum_ = scratch.take<A>(t);
    rescale_ = scratch.take<A>(kMaxRows);
    if (shape.chunk < shape.keys) acc_ = scratch.take<A>(t * shape.value.padded);
  }

  void run(const Arrays& x) {
    prefetch_rows_ = next_.template rows_per_tile<A>(shape_.queries, shape_.keys);
    for (std::int64_t key = 0; key < shape_.keys; key += shape_.chunk) {
      std::int64_t left = shape_.keys - key;
      chunk_ = left < shape_.chunk ? left : shape_.chunk;
      first_ = key == 0;
      last_ = left <= shape_.chunk;
      if (bias_) bias_.begin_chunk(key, chunk_);
      pack_panels(x.k.from(key), chunk_, vectors(), shape_.key.dim, keys_);
      pack_rows(x.v.from(key), chunk_, shape_.value.dim, shape_.value.padded, values_);
      for (std::int64_t row = 0; row < shape_.queries; row += shape_.rows) {
        left = shape_.queries - row;
        std::int64_t rows = left < shape_.rows ? left : shape_.rows;
        pack_columns(x.q.from(row), rows, round_up(rows, kWidth<E>), shape_.key.dim, queries_,
                     kMaxRows);
        if (bias_) {
          score_biased(row, rows);
        } else {
          score<false>(row, rows);
        }
        softmax_rows<E>(scores_, kScoreLd, rows, vectors() * kWidth<E>, first_,
                        {largest_ + row, sum_ + row, rescale_});
        if constexpr (Mask::kActive) {
          mask_.draw(row, rows, key, chunk_);
          drop(rows);
        }
        weigh(row, rows, x.out.from(row));
      }
    }
    for_each_vector<A>(shape_.queries, [&](std::int64_t i, auto n) {
      store_n(x.lse + i, load(largest_ + i) * static_cast<A>(kLn2) + log_positive(load(sum_ + i)),
              n);
    });
  }

 private:
  std::int64_t vectors() const { return divide_up(chunk_, kWidth<E>); }

  // Not inlined, so that the compiler still inlines the usual case.
  [[gnu::noinline]] void score_biased(std::int64_t first_row, std::int64_t rows) {
    score<true>(first_row, rows);
  }

  // scores = q k^T scale, plus the bias if kBiased; -infinity in columns past the last key.
  template <bool kBiased>
  void score([[maybe_unused]] std::int64_t first_row, std::int64_t rows) {
    Vec<A> padding = padding_bias<A>(chunk_ - (vectors() - 1) * kWidth<E>);
    std::int64_t end_column = vectors() * kWidth<E>;
    multiply<E, 1, kMaxRows>(
        queries_, keys_, {shape_.key.steps, 0}, rows, vectors(), FromZero{},
        [&]<class Vector, int R, int V>(Vector(&acc)[R][V], std::int64_t row, std::int64_t column) {
          next_.advance(prefetch_rows_);
          A* s = scores_ + row * kScoreLd + column;
          Vec<A> last_padding = column + V * kWidth<E> == end_column ? padding : Vec<A>{};
#pragma GCC unroll 24
          for (int r = 0; r < R; ++r) {
            if constexpr (kBiased) {
              const auto terms = bias_.terms(first_row + row + r, column);
#pragma GCC unroll 4
              for (int v = 0; v < V; ++v) {
                acc[r][v] = acc[r][v] * shape_.scale + terms.at(v * kWidth<E>);
              }
            } else {
#pragma GCC unroll 4
              for (int v = 0; v < V; ++v) acc[r][v] *= shape_.scale;
              acc[r][V - 1] += last_padding;
            }
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) store(s + r * kScoreLd + v * kWidth<E>, acc[r][v]);
          }
        });
  }

  // Zeroes the dropped probabilities. Their sum is already taken.
  void drop(std::int64_t rows) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < vectors() * kWidth<E>; j += kWidth<E>) {
        if constexpr (std::is_same_v<E, Bf16Pair>) {
          bfloat16* p = reinterpret_cast<bfloat16*>(scores_ + r * kScoreLd) + j;
          store(p, mask_.keep(load(p), r, j));
        } else {
          A* p = scores_ + r * kScoreLd + j;
          store(p, mask_.keep(load(p), r, j));
        }
      }
    }
  }

  // After the last chunk out = p v / sum; before it acc_ = acc_ rescale + p v.
  void weigh(std::int64_t first_row, std::int64_t rows, const Out& out) {
    const std::int64_t ld = shape_.value.padded;
    A* carried = acc_ ? acc_ + first_row * ld : nullptr;
    const E* p = reinterpret_cast<const E*>(scores_);
    multiply<E, kScoreLd, 1>(
        p, values_, {divide_up(chunk_, kDepth<E>), ld}, rows, shape_.value.vectors,
        [&]<class Vector, int R, int V>(Vector(&acc)[R][V], std::int64_t row, std::int64_t column) {
          FromZero{}(acc, row, column);
          if (first_) return;
          for (int r = 0; r < R && row + r < rows; ++r) {
            for (int v = 0; v < V; ++v) {
              acc[r][v] =
                  rescale_[row + r] * load(carried + (row + r) * ld + column + v * kWidth<E>);
            }
          }
        },
        [&]<class Vector, int R, int V>(Vector(&acc)[R][V], std::int64_t row, std::int64_t column) {
          if (!last_) {
            store_tile(acc, carried + row * ld + column, ld, rows - row, ld - column);
            return;
          }
#pragma GCC unroll 24
          for (int r = 0; r < R; ++r) {
            A inverse = mask_.kept() / sum_[first_row + row + r];
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) acc[r][v] *= inverse;
          }
          store_tile(
              acc, [&](int r) { return out(row + r) + column; }, rows - row,
              shape_.value.dim - column);
        });
  }

  const Shape& shape_;
  Bias bias_;
  RowPrefetch<Rows<const S>> next_;
  [[no_unique_address]] Mask mask_;
  std::int64_t prefetch_rows_ = 0;   // per tile
  std::int64_t chunk_ = 0;           // keys of this chunk
  bool first_ = true, last_ = true;  // of the chunks
  E* keys_;                          // panels of k^T
  E* values_;                        // [chunk / kDepth, value.padded]
  E* queries_;                       // [key.steps, kMaxRows]
  A* scores_;                        // [kMaxRows, kScoreLd]; scores, then probabilities as E
  A* largest_;                       // [Q]
  A* sum_;                           // [Q]
  A* rescale_;                       // [kMaxRows]
  A* acc_ = nullptr;                 // [Q, value.padded], if there are several chunks
};

}  // namespace dtn::DTN_ISA
