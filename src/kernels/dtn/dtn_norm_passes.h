// Inner loops of the DTN kernels: products of a small n x n position matrix with n vectors of a
// plane, blocked for registers. A plane holds one vector (kLanes channels of one head) per token of
// one image. A pass processes two planes at once, for the first and second moment or their
// gradients. So every matrix element that is broadcast is used twice.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

// Division of a plane into lines along one axis of the grid. Rows are n = grid_w vectors at
// distance 1; columns are n = grid_h vectors at distance grid_w. All units are vectors.
struct Lines {
  std::int64_t n, step;           // vectors per line and their distance
  std::int64_t count, line_step;  // number of lines and their distance
};

// Outputs of a pass that are held in registers, with two moments each; side of a block of an outer
// product. For 32 registers or for 16.
#if defined(DTN_ISA_avx512)
inline constexpr int kPassBlock = 14;
inline constexpr int kOuterBlock = 5;
#else
inline constexpr int kPassBlock = 6;
inline constexpr int kOuterBlock = 3;
#endif
// Outputs per block if each reads only a few inputs: smaller blocks read fewer inputs.
inline constexpr int kNarrowBlock = kPassBlock < 7 ? kPassBlock : 7;

// Source of the second plane of a pair.
enum class Second { kPlane, kSquare };

// Positions [begin, end) along an axis.
struct Span {
  std::int64_t begin, end;
};

// Calls f(begin, size) for the blocks of outputs of a pass: nearly equal, at most `most`.
template <class F>
inline void for_each_pass_block(std::int64_t n, std::int64_t most, F&& f) {
  std::int64_t begin = 0;
  for (std::int64_t left = (n + most - 1) / most; left > 0; --left) {
    const std::int64_t size = (n - begin) / left;
    f(begin, size);
    begin += size;
  }
}

// A matrix [n, n] in the order in which a pass reads it: one block of outputs i after the other,
// each [n, size], size <= `block`. reads[k] holds the inputs that block k reads; all other elements
// of the block are 0. null: each block reads all inputs.
template <class A>
struct PassMatrix {
  const A* values;
  std::int64_t block = kPassBlock;
  const Span* reads = nullptr;
};

// Computes kBlock outputs of one line: out[i] = sum_j matrix[j, i] in[j], matrix [n, kBlock].
// `step` is in elements. Not inlined, so that the compiler does not spend registers on values that
// change from line to line.
template <class A, int kBlock, Second second>
[[gnu::noinline]] void pass_line(std::int64_t n, std::int64_t step, const A* matrix, const A* in1,
                                 const A* in2, A* out1, A* out2) {
  Vec<A> sum1[kBlock] = {}, sum2[kBlock] = {};
  const A* row = matrix;
  for (std::int64_t j = 0; j < n; ++j) {
    Vec<A> a = load(in1 + j * step), b;
    if constexpr (second == Second::kPlane) {
      b = load(in2 + j * step);
    } else {
      b = a * a;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kBlock; ++i) {
      Vec<A> p = broadcast(row[i]);
      sum1[i] += p * a;
      sum2[i] += p * b;
    }
    row += kBlock;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kBlock; ++i) {
    store(out1 + i * step, sum1[i]);
    store(out2 + i * step, sum2[i]);
  }
}

template <class A>
using PassLine = void (*)(std::int64_t, std::int64_t, const A*, const A*, const A*, A*, A*);

// Returns the instance of pass_line for a block of 1, ..., kPassBlock outputs.
template <class A, Second second, int... kBlock>
constexpr PassLine<A> pass_line_of(std::int64_t block, std::integer_sequence<int, kBlock...>) {
  constexpr PassLine<A> table[] = {pass_line<A, kBlock + 1, second>...};
  return table[block - 1];
}

// For each line, out1[i] = sum_j matrix[j, i] in1[j], and out2 likewise from in2 (kPlane) or from
// in1^2 (kSquare). Outputs must not be inputs.
template <class A, Second second>
inline void pass(Lines lines, const PassMatrix<A>& matrix, const A* in1, const A* in2, A* out1,
                 A* out2) {
  const std::int64_t step = lines.step * kLanes<A>, line_step = lines.line_step * kLanes<A>;
  std::int64_t block = 0;
  for_each_pass_block(lines.n, matrix.block, [&](std::int64_t begin, std::int64_t size) {
    const PassLine<A> line =
        pass_line_of<A, second>(size, std::make_integer_sequence<int, kPassBlock>{});
    const Span read = matrix.reads ? matrix.reads[block++] : Span{0, lines.n};
    const A* values = matrix.values + begin * lines.n + read.begin * size;
    const std::int64_t from = read.begin * step, to = begin * step;
    for (std::int64_t k = 0; k < lines.count; ++k) {
      const std::int64_t at = k * line_step;
      line(read.end - read.begin, step, values, in1 + (at + from),
           second == Second::kPlane ? in2 + (at + from) : nullptr, out1 + (at + to),
           out2 + (at + to));
    }
  });
}

// The gradient G of a position matrix P is
//    G[i, j] = sum over lines of left1[i] right1[j] + left2[i] right2[j]
// Only its products with two weight matrices are needed, lane by lane:
//    offset += sum_ij by_offset[i, j] G[i, j]
//    square += sum_ij by_square[i, j] G[i, j]
// So a block of G never leaves the registers.
template <class A>
struct PositionSums {
  Vec<A> offset{}, square{};

  // Partial sums lose less to rounding than one long sum.
  void operator+=(const PositionSums& part) {
    offset += part.offset;
    square += part.square;
  }
};

template <class A, int kRows, int kColumns, Second second>
void outer_block(Lines lines, const A* left1, const A* left2, const A* right1, const A* right2,
                 const A* by_offset, const A* by_square, PositionSums<A>& sums) {
  constexpr int lanes = kLanes<A>;
  Vec<A> g[kRows][kColumns] = {};
  const std::int64_t step = lines.step * lanes;
  auto add_products = [&](const A* left, const A* right, bool square)
      __attribute__((always_inline)) {
    Vec<A> r[kColumns];
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      r[j] = load(right + j * step);
      if (square) r[j] = r[j] * r[j];
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      Vec<A> l = load(left + i * step);
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) g[i][j] += l * r[j];
    }
  };
  for (std::int64_t line = 0; line < lines.count; ++line) {
    const std::int64_t start = line * lines.line_step * lanes;
    add_products(left1 + start, right1 + start, false);
    if constexpr (second == Second::kPlane) {
      add_products(left2 + start, right2 + start, false);
    } else {
      add_products(left2 + start, right1 + start, true);
    }
  }
  PositionSums<A> total;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      total.offset += broadcast(by_offset[i * lines.n + j]) * g[i][j];
      total.square += broadcast(by_square[i * lines.n + j]) * g[i][j];
    }
  }
  sums += total;
}

// Selects the instance of outer_block for the given sides.
template <class A, Second second, int kRows = kOuterBlock, int kColumns = kOuterBlock,
          class... Rest>
inline void outer_of(std::int64_t rows, std::int64_t columns, Rest&&... rest) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return outer_of<A, second, kRows - 1, kColumns>(rows, columns, rest...);
  }
  if constexpr (kColumns > 1) {
    if (columns < kColumns) return outer_of<A, second, kRows, kColumns - 1>(rows, columns, rest...);
  }
  outer_block<A, kRows, kColumns, second>(rest...);
}

// The weight matrices [n, n]; row i is 0 outside the span seen[i].
template <class A>
struct PositionWeights {
  const A *by_offset, *by_square;
  const Span* seen;
};

// Adds the products of all of G. left: gradients of the outputs of the pass by P; right: its inputs
// (right2 is right1^2 for kSquare).
template <class A, Second second>
void position_sums(Lines lines, const A* left1, const A* left2, const A* right1, const A* right2,
                   const PositionWeights<A>& weights, PositionSums<A>& sums) {
  const std::int64_t n = lines.n, blocks = (n + kOuterBlock - 1) / kOuterBlock;
  const std::int64_t step = lines.step * kLanes<A>;
  const auto [by_offset, by_square, spans] = weights;
  for (std::int64_t ib = 0; ib < blocks; ++ib) {
    const std::int64_t i = n * ib / blocks, rows = n * (ib + 1) / blocks - i;
    Span seen = spans[i];
    for (std::int64_t k = i + 1; k < i + rows; ++k) {
      if (spans[k].begin < seen.begin) seen.begin = spans[k].begin;
      if (spans[k].end > seen.end) seen.end = spans[k].end;
    }
    const std::int64_t width = seen.end - seen.begin;
    const std::int64_t across = (width + kOuterBlock - 1) / kOuterBlock;
    PositionSums<A> of_rows;
    for (std::int64_t jb = 0; jb < across; ++jb) {
      const std::int64_t j = seen.begin + width * jb / across;
      const std::int64_t columns = seen.begin + width * (jb + 1) / across - j;
      outer_of<A, second>(rows, columns, lines, left1 + i * step, left2 + i * step,
                          right1 + j * step, right2 + j * step, by_offset + i * n + j,
                          by_square + i * n + j, of_rows);
    }
    sums += of_rows;
  }
}

}  // namespace dtn::DTN_ISA
