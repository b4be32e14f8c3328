// Backward pass of one head: the outer loop runs over chunks of keys, the inner loop over blocks of
// query rows. p = 2^(s - lse) and ds are recomputed tile by tile while the scores are in registers.
// dk and dv are summed over the blocks of a chunk, dq over the chunks, always in that order.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_bias.h"
#include "kernels/attention/attention_mask.h"

namespace dtn::DTN_ISA {

#if defined(DTN_ISA_avx512)
// Rounds two rows of a tile to bfloat16, one after the other; stores them as pairs of rows.
inline __m512i round_two_rows(VecF even, VecF odd) {
  return (__m512i)_mm512_cvtne2ps_pbh((__m512)odd, (__m512)even);
}
inline void store_paired(Bf16Pair* paired, __m512i rows) {
  const __m512i zip = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
                                       23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  _mm512_storeu_si512(paired, _mm512_permutexvar_epi16(zip, rows));
}
#endif

// Rows, Bias and Mask are as in ForwardHead. Gradients: the type of gradient rows, Rows or
// AddedRows.
template <class S, template <class> class Rows, class Bias, class Gradients = Rows<S>,
          class Mask = NoDropout>
class BackwardHead {
 public:
  using Shape = AttentionShape<S>;
  using E = typename Shape::E;
  using A = typename Shape::A;
  using Width = typename Shape::Width;

  struct Arrays {
    Rows<const S> q, k, v;    // [Q, Dk], [S, Dk], [S, Dv]
    Rows<const S> out, dout;  // [Q, Dv]
    const A* lse;             // [Q]
    Gradients dq, dk, dv;
  };

  // Long enough that dk and dv are seldom reloaded, short enough for the L2 cache.
  static constexpr std::int64_t kMaxRows = 240;
  static_assert(kMaxRows % kRowAlign == 0 && kMaxRows % kWidth<E> == 0);
  static std::int64_t max_rows(std::int64_t) { return kMaxRows; }

  // Prefetches `next` into the cache during run().
  BackwardHead(Scratch::Scope& scratch, const Shape& shape, const Bias& bias,
               const RowPrefetch<Rows<const S>>& next, const Mask& mask = {})
      : shape_(shape), bias_(bias), next_(next), mask_(mask) {
    const Width &key = shape.key, &value = shape.value;
    keys_t_ = scratch.take<E>(key.steps * shape.chunk);
    values_t_ = scratch.take<E>(value.steps * shape.chunk);
    keys_ = scratch.take<E>(shape.chunk * key.padded);
    queries_t_ = scratch.take<E>(key.steps * kMaxRows);
    douts_t_ = scratch.take<E>(value.steps * kMaxRows);
    queries_ = scratch.take<E>(kMaxRows * key.padded);
    douts_ = scratch.take<E>(kMaxRows * value.padded);
    p_ = scratch.take<E>(kMaxRows / kDepth<E> * kScoreLd);
    ds_ = scratch.take<E>(kMaxRows / kDepth<E> * kScoreLd);
    ds_rows_ = kDepth<E> == 1 ? ds_ : scratch.take<E>(kMaxRows * kDsLd);
    lse_ = scratch.take<A>(shape.padded_queries());
    delta_ = scratch.take<A>(shape.padded_queries());
    if (shape.rows < shape.queries) {
      dk_acc_ = scratch.take<A>(shape.chunk * key.padded);
      dv_acc_ = scratch.take<A>(shape.chunk * value.padded);
    }
    if (shape.chunk < shape.keys) dq_acc_ = scratch.take<A>(shape.queries * key.padded);
  }

  void run(const Arrays& x) {
    prepare_rows(x);
    const Width &key_width = shape_.key, &value_width = shape_.value;
    prefetch_rows_ = next_.template rows_per_tile<A>(shape_.queries, shape_.keys);
    for (std::int64_t key = 0; key < shape_.keys; key += shape_.chunk) {
      std::int64_t left = shape_.keys - key;
      chunk_ = left < shape_.chunk ? left : shape_.chunk;
      if (bias_) bias_.begin_chunk(key, chunk_);
      pack_panels(x.k.from(key), chunk_, vectors(), key_width.dim, keys_t_);
      pack_panels(x.v.from(key), chunk_, vectors(), value_width.dim, values_t_);
      pack_rows(x.k.from(key), chunk_, key_width.dim, key_width.padded, keys_);
      for (std::int64_t row = 0; row < shape_.queries; row += shape_.rows) {
        left = shape_.queries - row;
        block_ = left < shape_.rows ? left : shape_.rows;
        pack_block(x.q.from(row), key_width, queries_t_, queries_);
        pack_block(x.dout.from(row), value_width, douts_t_, douts_);
        if constexpr (Mask::kActive) mask_.draw(row, block_, key, chunk_);
        if (bias_) {
          biased_score_gradients(row);
        } else {
          score_gradients<false>(row);
        }
        Part rows_part{row == 0, left <= shape_.rows};
        product<1, kScoreLd>({p_, douts_, block_, chunk_}, value_width, rows_part, mask_.kept(),
                             dv_acc_, x.dv.from(key));
        product<1, kScoreLd>({ds_, queries_, block_, chunk_}, key_width, rows_part, scale(),
                             dk_acc_, x.dk.from(key));
        Part keys_part{key == 0, key + shape_.chunk >= shape_.keys};
        product<kDsLd, 1>({ds_rows_, keys_, chunk_, block_}, key_width, keys_part, scale(),
                          dq_acc_ ? dq_acc_ + row * key_width.padded : nullptr, x.dq.from(row));
      }
      if (bias_) bias_.end_chunk();
    }
  }

 private:
  static constexpr bool kPairs = kDepth<E> == 2;
  static constexpr int kDsLd = kScoreLd / kDepth<E>;

  struct Part {  // first and last term of a sum
    bool first, last;
  };
  struct Factors {  // a [rows, depth] times b [depth, width]
    const E *a, *b;
    std::int64_t depth, rows;
  };

  std::int64_t vectors() const { return divide_up(chunk_, kWidth<E>); }
  A scale() const { return shape_.scale * static_cast<A>(kLn2); }

  // Sets lse_ in base 2 and delta_ = rowsum(dout out). Padding rows get 0: p is then finite and is
  // multiplied by a dout of 0.
  void prepare_rows(const Arrays& x) {
    for (std::int64_t i = 0; i < shape_.queries; ++i) {
      const S *out = x.out(i), *dout = x.dout(i);
      Vec<A> sum{};
      for_each_vector<A>(shape_.value.dim, [&](std::int64_t d, auto n) {
        sum += load_n(out + d, n) * load_n(dout + d, n);
      });
      delta_[i] = reduce_add(sum);
      lse_[i] = x.lse[i] * static_cast<A>(kLog2E);
    }
    for (std::int64_t i = shape_.queries; i < shape_.padded_queries(); ++i) lse_[i] = delta_[i] = 0;
  }

  void pack_block(const Rows<const S>& x, const Width& width, E* columns, E* rows) const {
    pack_columns(x, block_, round_up(block_, kWidth<E>), width.dim, columns, kMaxRows);
    pack_rows(x, block_, width.dim, width.padded, rows);
  }

  // Not inlined, so that the compiler still inlines the usual case.
  [[gnu::noinline]] void biased_score_gradients(std::int64_t first_row) {
    score_gradients<true>(first_row);
  }

  // Computes p_ and ds_ for the block's rows and the chunk's keys; 0 in columns past the last key.
  template <bool kBiased>
  void score_gradients(std::int64_t first_row) {
    constexpr int W = kWidth<E>;
    Vec<A> padding = padding_bias<A>(chunk_ - (vectors() - 1) * W);
    const std::int64_t key_steps = shape_.key.steps, value_steps = shape_.value.steps;
    for_each_panel(vectors(), [&](std::int64_t first, auto panel_vectors) {
      constexpr int V = decltype(panel_vectors)::value;
      std::int64_t column = first * W;
      Vec<A> last_padding = first + V == vectors() ? padding : Vec<A>{};
      for_each_tile<V>(block_, [&](std::int64_t row, auto tile_rows) {
        constexpr int R = decltype(tile_rows)::value;
        Vec<A> acc[R][V];
        FromZero{}(acc, row, column);
        multiply_tile<E, 1, kMaxRows>(acc, queries_t_ + row, keys_t_ + column * key_steps, V * W,
                                      key_steps);
        alignas(64) A local[kPairs ? R * V * W : 1];
        A* tile = local;
        if constexpr (!kPairs) tile = p_at(p_, row, column);
        probabilities<kBiased>(acc, tile, first_row, row, column, last_padding,
                               p_at(p_, row, column));
        next_.advance(prefetch_rows_);
        FromZero{}(acc, row, column);
        multiply_tile<E, 1, kMaxRows>(acc, douts_t_ + row, values_t_ + column * value_steps, V * W,
                                      value_steps);
        gradients(acc, tile, first_row, row, column, p_at(ds_, row, column),
                  ds_rows_ + row * kDsLd + column / kDepth<E>);
        if constexpr (kBiased) bias_.take(acc, first_row + row, column);
      });
    });
  }

  static E* p_at(E* p, std::int64_t row, std::int64_t column) {
    return p + row / kDepth<E> * kScoreLd + column;
  }

  // Turns acc = q k^T into p and stores p in `tile` for gradients(). For pairs of rows, `tile` is a
  // separate buffer and `out` gets the elements of p without the dropped weights. Otherwise `tile`
  // is where the elements of p belong, and gradients() zeroes the dropped weights.
  template <bool kBiased, int R, int V>
  [[gnu::always_inline]] void probabilities(Vec<A> (&acc)[R][V], A* tile, std::int64_t first_row,
                                            std::int64_t row, [[maybe_unused]] std::int64_t column,
                                            [[maybe_unused]] Vec<A> last_padding,
                                            [[maybe_unused]] E* out) const {
    const std::int64_t query = first_row + row;
    const A* lse = lse_ + query;
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) {
      if constexpr (kBiased) {
        const auto terms = bias_.terms(query + r, column);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          acc[r][v] = acc[r][v] * shape_.scale + (terms.at(v * kWidth<E>) - lse[r]);
        }
      } else {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) acc[r][v] = acc[r][v] * shape_.scale - lse[r];
        acc[r][V - 1] += last_padding;
      }
      exp2<E>(acc[r]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) store(tile + tile_offset<V>(r, v), acc[r][v]);
#if defined(DTN_ISA_avx512)
      if constexpr (kPairs) {
        if constexpr (Mask::kActive) {
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) {
            acc[r][v] = mask_.keep(acc[r][v], row + r, column + v * kWidth<E>);
          }
        }
        if (r % 2 == 0) continue;
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          store_paired(out + r / 2 * kScoreLd + v * kWidth<E>,
                       round_two_rows(acc[r - 1][v], acc[r][v]));
        }
      }
#endif
    }
  }

  // On entry acc = dout v^T. Writes ds = p (dp - delta) to `out` and, for pairs of rows, as pairs
  // of keys to `out_rows`.
  template <int R, int V>
  [[gnu::always_inline]] void gradients(Vec<A> (&acc)[R][V], A* tile, std::int64_t first_row,
                                        [[maybe_unused]] std::int64_t row,
                                        [[maybe_unused]] std::int64_t column, E* out,
                                        [[maybe_unused]] E* out_rows) const {
    const A* delta = delta_ + first_row + row;
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        A* p = tile + tile_offset<V>(r, v);
        if constexpr (Mask::kActive) {
          const std::int64_t key = column + v * kWidth<E>;
          const Vec<A> kept = load(p);
          acc[r][v] = kept * (mask_.keep(acc[r][v], row + r, key) * mask_.kept() - delta[r]);
          if constexpr (!kPairs) store(p, mask_.keep(kept, row + r, key));
        } else {
          acc[r][v] = load(p) * (acc[r][v] - delta[r]);
        }
        if constexpr (!kPairs) store(out + tile_offset<V>(r, v), acc[r][v]);
      }
#if defined(DTN_ISA_avx512)
      if constexpr (kPairs) {
        if (r % 2 == 0) continue;
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          __m512i two = round_two_rows(acc[r - 1][v], acc[r][v]);
          store_paired(out + r / 2 * kScoreLd + v * kWidth<E>, two);
          E* rows = out_rows + (r - 1) * kDsLd + v * kWidth<E> / 2;
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows), _mm512_castsi512_si256(two));
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows + kDsLd),
                              _mm512_extracti64x4_epi64(two, 1));
        }
      }
#endif
    }
  }

  template <int V>
  static constexpr int tile_offset(int r, int v) {
    return r * (kPairs ? V * kWidth<E> : kScoreLd) + v * kWidth<E>;
  }

  // Computes one part of the sum, over `depth` rows of b, in
  //    out = factor a b
  // Before the last part the sum is kept in `carried` [rows, width.padded].
  template <int kARow, int kAStep>
  void product(const Factors& f, const Width& width, Part part, A factor, A* carried,
               const Gradients& out) const {
    const std::int64_t ld = width.padded, rows = f.rows;
    multiply<E, kARow, kAStep>(
        f.a, f.b, {divide_up(f.depth, kDepth<E>), ld}, rows, width.vectors,
        [&]<class Vector, int R, int V>(Vector(&acc)[R][V], std::int64_t row, std::int64_t column) {
          FromZero{}(acc, row, column);
          if (part.first) return;
          for (int r = 0; r < R && row + r < rows; ++r) {
            for (int v = 0; v < V; ++v) {
              acc[r][v] = load(carried + (row + r) * ld + column + v * kWidth<E>);
            }
          }
        },
        [&]<class Vector, int R, int V>(Vector(&acc)[R][V], std::int64_t row, std::int64_t column) {
          if (!part.last) {
            store_tile(acc, carried + row * ld + column, ld, rows - row, ld - column);
            return;
          }
#pragma GCC unroll 24
          for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) acc[r][v] *= factor;
          }
          if constexpr (requires { Gradients::kAdds; }) {
            add_tile(
                acc, [&](int r) { return out(row + r) + column; }, rows - row);
          } else {
            store_tile(
                acc, [&](int r) { return out(row + r) + column; }, rows - row, width.dim - column);
          }
        });
  }

  const Shape& shape_;
  Bias bias_;
  RowPrefetch<Rows<const S>> next_;
  [[no_unique_address]] Mask mask_;
  std::int64_t prefetch_rows_ = 0;           // per tile
  std::int64_t chunk_ = 0, block_ = 0;       // keys of this chunk, query rows of this block
  E *keys_t_, *values_t_;                    // panels of k^T and v^T
  E *queries_t_, *douts_t_;                  // [key.steps, kMaxRows], [value.steps, kMaxRows]
  E *keys_, *queries_, *douts_;              // [rows / kDepth, padded width]
  E *p_, *ds_;                               // [kMaxRows / kDepth, kScoreLd]
  E* ds_rows_;                               // [kMaxRows, kDsLd]; is ds_ if kDepth is 1
  A *lse_, *delta_;                          // [Q]; lse in base 2
  A *dk_acc_ = nullptr, *dv_acc_ = nullptr;  // [chunk, padded width], if there are several blocks
  A* dq_acc_ = nullptr;                      // [Q, key.padded], if there are several chunks
};

}  // namespace dtn::DTN_ISA
