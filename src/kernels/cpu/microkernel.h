// Register-blocked products of small matrices that are already packed and in cache:
//    C[i][j] = sum over k of A[i][k] B[k][j].
// A tile of C (rows x vectors) is in registers while k runs. The caller decides what happens before
// and after, so softmax, scaling and stores work on registers.
//
// The element type defines the step of k. float and double: one k at a time. Bf16Pair (AVX-512 with
// BF16 only): one 32-bit word holds two bfloat16 of neighbouring k, in A and in B, and one
// instruction accumulates both in float32. All other code only sees words.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

struct Bf16Pair {
  std::uint32_t bits;
};

template <class E>
using Accumulator = std::conditional_t<std::is_same_v<E, double>, double, float>;
template <class E>
inline constexpr int kDepth = std::is_same_v<E, Bf16Pair> ? 2 : 1;  // k per element
template <class E>
inline constexpr int kWidth = kLanes<Accumulator<E>>;  // columns per vector

// Number of vectors of C in registers next to a row of B, and the largest tile width. With 32
// registers: 24 accumulators, up to 4 vectors of B and one broadcast of A; with 16: 12, 3 and 1.
#if defined(DTN_ISA_avx512)
inline constexpr int kTileVectors = 24, kMaxTileWidth = 4;
#else
inline constexpr int kTileVectors = 12, kMaxTileWidth = 3;
#endif
// Rows of a tile V vectors wide. For V = 1, 12 rows already hide the latency.
template <int V>
inline constexpr int kTileRows = kTileVectors / (V == 1 && kTileVectors == 24 ? 2 : V);
// Rows of the smaller tiles. These tiles cover the last rows, where whole tiles would waste most
// work. They also hide the latency, or nearly.
template <int V>
inline constexpr int kSmallTileRows = kTileRows<V> >= 12 ? 4 : 2;
// Row counts rounded up to this are a multiple of the rows of every tile.
inline constexpr int kRowAlign = 24;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

inline VecF multiply_add(const float* a, VecF b, VecF c) { return (*a - VecF{}) * b + c; }
inline Vec<double> multiply_add(const double* a, Vec<double> b, Vec<double> c) {
  return (*a - Vec<double>{}) * b + c;
}
#if defined(DTN_ISA_avx512)
inline VecF multiply_add(const Bf16Pair* a, VecF b, VecF c) {
  __m512i pair = _mm512_set1_epi32(static_cast<int>(a->bits));
  return (VecF)_mm512_dpbf16_ps((__m512)c, (__m512bh)pair, (__m512bh)b);
}
#endif

// acc[r][v] += sum over s < steps of A[r][s] B[s][v], where A[r][s] = a[r * kARow + s * kAStep] and
// the vector B[s][v] starts at b[s * b_step + v * kWidth].
template <class E, int kARow, int kAStep, int R, int V, class Vector>
[[gnu::always_inline]] inline void multiply_tile(Vector (&acc)[R][V], const E* a, const E* b,
                                                 std::int64_t b_step, std::int64_t steps) {
  for (std::int64_t s = 0; s < steps; ++s) {
    Vector row[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) std::memcpy(&row[v], b + v * kWidth<E>, sizeof(Vector));
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = multiply_add(a + r * kARow, row[v], acc[r][v]);
    }
    a += kAStep;
    b += b_step;
  }
}

// Covers `vectors` columns by panels with at most kMaxTileWidth vectors, of nearly equal width V,
// and calls f(first vector, integral_constant<int, V>).
template <class F>
inline void for_each_panel(std::int64_t vectors, F&& f) {
  if (vectors <= 0) return;
  std::int64_t panels = divide_up(vectors, kMaxTileWidth);
  std::int64_t width = vectors / panels, wider = vectors % panels, first = 0;
  for (std::int64_t p = 0; p < panels; ++p) {
    std::int64_t v = width + (p < wider);
    switch (v) {
      case 1: f(first, std::integral_constant<int, 1>{}); break;
      case 2: f(first, std::integral_constant<int, 2>{}); break;
      case 3: f(first, std::integral_constant<int, 3>{}); break;
      default: f(first, std::integral_constant<int, kMaxTileWidth>{}); break;
    }
    first += v;
  }
}

// Covers `rows` by tiles for a panel of width V, and calls f(first row, integral_constant<int, R>).
// The last tile may reach past the rows, but not past round_up(rows, kRowAlign).
template <int V, class F>
[[gnu::always_inline]] inline void for_each_tile(std::int64_t rows, F&& f) {
  constexpr int R = kTileRows<V>, kSmall = kSmallTileRows<V>;
  std::int64_t row = 0;
  for (; rows - row > R - kSmall; row += R) f(row, std::integral_constant<int, R>{});
  for (; row < rows; row += kSmall) f(row, std::integral_constant<int, kSmall>{});
}

// Layout of B: consecutive panels, each [steps][V * kWidth]; or row-major with rows of `ld`.
struct PanelLayout {
  std::int64_t steps, ld;
  std::int64_t offset(std::int64_t column) const { return ld ? column : column * steps; }
  std::int64_t step(std::int64_t panel_columns) const { return ld ? ld : panel_columns; }
};

// Computes all tiles of C [rows, vectors * kWidth]. begin(acc, row, column) initialises a tile, the
// product is added, and end(acc, row, column) stores it. The last tile may reach past `rows`, so A
// must be readable up to round_up(rows, kRowAlign).
template <class E, int kARow, int kAStep, class Begin, class End>
inline void multiply(const E* a, const E* b, PanelLayout layout, std::int64_t rows,
                     std::int64_t vectors, const Begin& begin, const End& end) {
  for_each_panel(vectors, [&](std::int64_t first, auto panel_vectors) {
    constexpr int V = decltype(panel_vectors)::value;
    std::int64_t column = first * kWidth<E>;
    const E* panel = b + layout.offset(column);
    for_each_tile<V>(rows, [&](std::int64_t row, auto tile_rows) {
      Vec<Accumulator<E>> acc[decltype(tile_rows)::value][V];
      begin(acc, row, column);
      multiply_tile<E, kARow, kAStep>(acc, a + row * kARow, panel, layout.step(V * kWidth<E>),
                                      layout.steps);
      end(acc, row, column);
    });
  });
}

// A `begin` that initialises a tile to zero.
struct FromZero {
  template <class Vector, int R, int V>
  [[gnu::always_inline]] void operator()(Vector (&acc)[R][V], std::int64_t, std::int64_t) const {
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) acc[r][v] = Vector{};
    }
  }
};

// Stores the part of a tile that is inside C. [rows_left, columns_left] is the size of C from the
// tile's corner; row(r) is the address of row r of the tile.
template <class Row, class Vector, int R, int V>
[[gnu::always_inline]] inline void store_tile(const Vector (&acc)[R][V], const Row& row,
                                              std::int64_t rows_left, std::int64_t columns_left) {
  using S = std::remove_pointer_t<decltype(row(0))>;
  constexpr int lanes = kLanes<AccumulatorOf<S>>;
  if (columns_left >= std::int64_t{V} * lanes) {
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) {
      if (r >= rows_left) return;
      S* to = row(r);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) store(to + v * lanes, acc[r][v]);
    }
    return;
  }
  int whole = static_cast<int>(columns_left) / lanes, rest = static_cast<int>(columns_left) % lanes;
#pragma GCC unroll 24
  for (int r = 0; r < R; ++r) {
    if (r >= rows_left) return;
    S* to = row(r);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      if (v < whole) store(to + v * lanes, acc[r][v]);
      if (v == whole && rest) store_partial(to + v * lanes, acc[r][v], rest);
    }
  }
}
// Adds the rows of a tile that are inside C, in whole vectors, to the rows at row(r).
template <class Row, class Vector, int R, int V>
[[gnu::always_inline]] inline void add_tile(const Vector (&acc)[R][V], const Row& row,
                                            std::int64_t rows_left) {
  constexpr int lanes = kLanes<std::remove_pointer_t<decltype(row(0))>>;
#pragma GCC unroll 24
  for (int r = 0; r < R; ++r) {
    if (r >= rows_left) return;
    auto* to = row(r);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(to + v * lanes, load(to + v * lanes) + acc[r][v]);
  }
}
// Stores the part of a tile that is inside C, with rows `ld` apart.
template <class S, class Vector, int R, int V>
[[gnu::always_inline]] inline void store_tile(const Vector (&acc)[R][V], S* c, std::int64_t ld,
                                              std::int64_t rows_left, std::int64_t columns_left) {
  store_tile(
      acc, [=](int r) { return c + r * ld; }, rows_left, columns_left);
}

}  // namespace dtn::DTN_ISA
