// Inner loops of DTN on sequences. A plane holds one vector of channels per token. The loops are
// products with a table that slides along the sequence, the gradient of the table by offset, and
// products with rows that have their own weights. Sums run over the taps or columns in order, in
// partial sums. So they do not depend on the blocking of rows, and long sums lose less to rounding.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cpu/row_sums.h"
#include "kernels/dtn/dtn_norm_passes.h"

namespace dtn::DTN_ISA {

// Outputs and taps whose sums and weights are held in registers; for 32 registers or for 16.
#if defined(DTN_ISA_avx512)
inline constexpr int kLineRows = 8, kLineTaps = 2, kGradientTaps = 14, kGradientRows = 4;
#else
inline constexpr int kLineRows = 6, kLineTaps = 2, kGradientTaps = 13, kGradientRows = 1;
#endif
// Rows beyond the last row that passes read and write to complete their blocks.
inline constexpr std::int64_t kLineSlack = 8;
// Taps or columns per partial sum of products.
inline constexpr std::int64_t kLinePart = 128;
// Rows per partial sum of gradients: a key that all rows read sums over the whole sequence.
inline constexpr std::int64_t kRowPart = 32;
// Own rows that are processed together.
inline constexpr int kOwnBlock = 4;

// sum[i] += sum over k < kTaps of w[k] in[i + k], for both planes.
template <class A, int kTaps>
[[gnu::always_inline]] inline void add_taps(const A* w, const A* in1, const A* in2, Vec<A>* sum1,
                                            Vec<A>* sum2) {
  constexpr int lanes = kLanes<A>;
  Vec<A> weight[kTaps];
#pragma GCC unroll 4
  for (int k = 0; k < kTaps; ++k) weight[k] = broadcast(w[k]);
#pragma GCC unroll 16
  for (int m = 0; m < kLineRows + kTaps - 1; ++m) {
    const Vec<A> a = load(in1 + m * lanes), b = load(in2 + m * lanes);
#pragma GCC unroll 4
    for (int k = 0; k < kTaps; ++k) {
      const int i = m - k;
      if (i < 0 || i >= kLineRows) continue;
      sum1[i] += weight[k] * a;
      sum2[i] += weight[k] * b;
    }
  }
}

// out[i] = scale[i] sum over k < taps of w[k] in[i + k], i < rows, for both planes; scale null: 1.
// Also writes up to kLineSlack rows beyond the last.
template <class A>
[[gnu::noinline]] void slide(std::int64_t rows, std::int64_t taps, const A* w, const A* scale,
                             const A* in1, const A* in2, A* out1, A* out2) {
  constexpr int lanes = kLanes<A>;
  for (std::int64_t i = 0; i < rows; i += kLineRows) {
    const A *a = in1 + i * lanes, *b = in2 + i * lanes;
    std::int64_t k = 0;
    do {
      Vec<A> sum1[kLineRows] = {}, sum2[kLineRows] = {};
      const bool more = k > 0;
      const std::int64_t end = std::min(taps, k + kLinePart);
      for (; k + kLineTaps <= end; k += kLineTaps, a += kLineTaps * lanes, b += kLineTaps * lanes) {
        add_taps<A, kLineTaps>(w + k, a, b, sum1, sum2);
      }
      if (k < end) add_taps<A, 1>(w + k++, a, b, sum1, sum2);
#pragma GCC unroll 8
      for (int m = 0; m < kLineRows; ++m) {
        const A factor = scale && i + m < rows ? scale[i + m] : A(1);
        const std::int64_t at = (i + m) * lanes;
        const Vec<A> part1 = sum1[m] * factor, part2 = sum2[m] * factor;
        store(out1 + at, more ? load(out1 + at) + part1 : part1);
        store(out2 + at, more ? load(out2 + at) + part2 : part2);
      }
    } while (k < taps);
  }
}

// g[k] += left1[q] in1[q + k] + left2[q] in2[q + k] over kRows rows q.
template <class A, int kTaps, int kRows>
[[gnu::always_inline]] inline void add_offsets(const A* left1, const A* left2, const A* in1,
                                               const A* in2, Vec<A>* g) {
  constexpr int lanes = kLanes<A>;
  Vec<A> l1[kRows], l2[kRows];
#pragma GCC unroll 4
  for (int q = 0; q < kRows; ++q) {
    l1[q] = load(left1 + q * lanes);
    l2[q] = load(left2 + q * lanes);
  }
#pragma GCC unroll 20
  for (int m = 0; m < kTaps + kRows - 1; ++m) {
    const Vec<A> a = load(in1 + m * lanes), b = load(in2 + m * lanes);
#pragma GCC unroll 4
    for (int q = 0; q < kRows; ++q) {
      const int k = m - q;
      if (k < 0 || k >= kTaps) continue;
      g[k] += l1[q] * a;
      g[k] += l2[q] * b;
    }
  }
}

// Gradient of the table by offset, for kTaps of its taps:
//    G[k] = sum over i of left1[i] in1[i + k] + left2[i] in2[i + k]
// Only its products with two tables are needed:
//    offset += sum over k of by_offset[k] G[k],   square likewise
template <class A, int kTaps>
[[gnu::noinline]] void offsets_block(std::int64_t rows, const A* left1, const A* left2,
                                     const A* in1, const A* in2, const A* by_offset,
                                     const A* by_square, PositionSums<A>& sums) {
  constexpr int lanes = kLanes<A>;
  Vec<A> g[kTaps] = {};
  std::int64_t i = 0;
  for (; i + kGradientRows <= rows; i += kGradientRows) {
    const std::int64_t at = i * lanes;
    add_offsets<A, kTaps, kGradientRows>(left1 + at, left2 + at, in1 + at, in2 + at, g);
  }
  for (; i < rows; ++i) {
    const std::int64_t at = i * lanes;
    add_offsets<A, kTaps, 1>(left1 + at, left2 + at, in1 + at, in2 + at, g);
  }
  PositionSums<A> total;
#pragma GCC unroll 16
  for (int k = 0; k < kTaps; ++k) {
    total.offset += g[k] * by_offset[k];
    total.square += g[k] * by_square[k];
  }
  sums += total;
}

template <class A>
using OffsetsBlock = void (*)(std::int64_t, const A*, const A*, const A*, const A*, const A*,
                              const A*, PositionSums<A>&);

// The instance of offsets_block for 1, ..., kGradientTaps taps.
template <class A, int... kTaps>
constexpr OffsetsBlock<A> offsets_block_of(std::int64_t taps,
                                           std::integer_sequence<int, kTaps...>) {
  constexpr OffsetsBlock<A> table[] = {offsets_block<A, kTaps + 1>...};
  return table[taps - 1];
}

// The same for all taps.
template <class A>
void slide_gradient(std::int64_t rows, std::int64_t taps, const A* left1, const A* left2,
                    const A* in1, const A* in2, const A* by_offset, const A* by_square,
                    PositionSums<A>& sums) {
  PositionSums<A> total;
  for_each_pass_block(taps, kGradientTaps, [&](std::int64_t k, std::int64_t size) {
    const std::int64_t at = k * kLanes<A>;
    offsets_block_of<A>(size, std::make_integer_sequence<int, kGradientTaps>{})(
        rows, left1, left2, in1 + at, in2 + at, by_offset + k, by_square + k, total);
  });
  sums += total;
}

// Calls f(begin, end) for the columns of each partial sum.
template <class F>
[[gnu::always_inline]] inline void for_each_line_part(std::int64_t columns, F&& f) {
  for (std::int64_t begin = 0; begin < columns; begin += kLinePart) {
    f(begin, std::min(columns, begin + kLinePart));
  }
}

// out[i] = sum over the columns k of p[i, k] in[k] for kRows rows, both planes.
template <class A, int kRows>
void own_block(std::int64_t columns, std::int64_t stride, const A* p, const A* in1, const A* in2,
               A* out1, A* out2) {
  constexpr int lanes = kLanes<A>;
  Vec<A> sum1[kRows] = {}, sum2[kRows] = {};
  for_each_line_part(columns, [&](std::int64_t begin, std::int64_t end) {
    Vec<A> part1[kRows] = {}, part2[kRows] = {};
    for (std::int64_t k = begin; k < end; ++k) {
      const Vec<A> a = load(in1 + k * lanes), b = load(in2 + k * lanes);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        const Vec<A> weight = broadcast(p[i * stride + k]);
        part1[i] += weight * a;
        part2[i] += weight * b;
      }
    }
    for (int i = 0; i < kRows; ++i) sum1[i] += part1[i], sum2[i] += part2[i];
  });
  for (int i = 0; i < kRows; ++i) {
    store(out1 + i * lanes, sum1[i]);
    store(out2 + i * lanes, sum2[i]);
  }
}

// Transposed product: out[k] += sum over kRows rows of p[i, k] left[i], both planes.
template <class A, int kRows>
void own_block_back(std::int64_t columns, std::int64_t stride, const A* p, const A* left1,
                    const A* left2, A* out1, A* out2) {
  constexpr int lanes = kLanes<A>;
  for (std::int64_t k = 0; k < columns; ++k) {
    Vec<A> sum1 = load(out1 + k * lanes), sum2 = load(out2 + k * lanes);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const Vec<A> weight = broadcast(p[i * stride + k]);
      sum1 += weight * load(left1 + i * lanes);
      sum2 += weight * load(left2 + i * lanes);
    }
    store(out1 + k * lanes, sum1);
    store(out2 + k * lanes, sum2);
  }
}

// Adds the contributions of kRows rows to the gradients of both position weights.
template <class A, int kRows>
void own_block_gradient(std::int64_t columns, std::int64_t stride, const A* by_offset,
                        const A* by_square, const A* left1, const A* left2, const A* in1,
                        const A* in2, PositionSums<A>& sums) {
  constexpr int lanes = kLanes<A>;
  PositionSums<A> total;
  for_each_line_part(columns, [&](std::int64_t begin, std::int64_t end) {
    PositionSums<A> of_row[kRows];
    for (std::int64_t k = begin; k < end; ++k) {
      const Vec<A> a = load(in1 + k * lanes), b = load(in2 + k * lanes);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        const Vec<A> g = load(left1 + i * lanes) * a + load(left2 + i * lanes) * b;
        of_row[i].offset += g * by_offset[i * stride + k];
        of_row[i].square += g * by_square[i * stride + k];
      }
    }
    for (int i = 0; i < kRows; ++i) total += of_row[i];
  });
  sums += total;
}

}  // namespace dtn::DTN_ISA
