// Transposition of small blocks in registers.
#pragma once

#include <utility>

#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

template <class V, int... I>
inline V interleave_low(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (I / 2 + I % 2 * static_cast<int>(sizeof...(I)))...);
}
template <class V, int... I>
inline V interleave_high(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  return __builtin_shufflevector(a, b, (n / 2 + I / 2 + I % 2 * n)...);
}

// Transposes in registers, x[i][j] -> x[j][i], by log2(lanes) perfect shuffles.
template <class V, int L>
[[gnu::always_inline]] inline void transpose_lanes(V (&x)[L]) {
  using Lanes = std::make_integer_sequence<int, L>;
#pragma GCC unroll 4
  for (int stage = 1; stage < L; stage *= 2) {
    V y[L];
#pragma GCC unroll 8
    for (int i = 0; i < L / 2; ++i) {
      y[2 * i] = interleave_low(x[i], x[i + L / 2], Lanes{});
      y[2 * i + 1] = interleave_high(x[i], x[i + L / 2], Lanes{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < L; ++i) x[i] = y[i];
  }
}

}  // namespace dtn::DTN_ISA
