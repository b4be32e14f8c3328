// Rows of a gated branch on the CPU; see GateForward and GateBackward in modulate.h. The fused
// layer normalization calls the same functions, so that its results have the same bits.
#pragma once

#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

// y = gain x + residual, or gain x for kResidual false.
template <bool kResidual, class T>
inline void gate_row(std::int64_t channels, const T* x, const AccumulatorOf<T>* gain,
                     const T* residual, T* y) {
  using A = AccumulatorOf<T>;
  for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
    Vec<A> v = load_n(x + c, count) * load_n(gain + c, count);
    if constexpr (kResidual) v += load_n(residual + c, count);
    store_n(y + c, v, count);
  });
}

// Rows that are processed together, so that gain and dgain are loaded once for all of them.
inline constexpr int kGateRows = 4;

// dx = gain dy and dgain += dy x over kRows consecutive rows of `channels` values; each only if
// requested. The rows share their gain, and are added in order.
template <int kRows, bool kDx, bool kDgain, class T>
[[gnu::noinline]] void gate_backward_rows(std::int64_t channels, const T* x,
                                          const AccumulatorOf<T>* gain, const T* dy, T* dx,
                                          AccumulatorOf<T>* dgain) {
  using A = AccumulatorOf<T>;
  for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
    Vec<A> factor{}, sum{};
    if constexpr (kDx) factor = load_n(gain + c, count);
    if constexpr (kDgain) sum = load_n(dgain + c, count);
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t at = r * channels + c;
      const Vec<A> g = load_n(dy + at, count);
      if constexpr (kDgain) sum += g * load_n(x + at, count);
      if constexpr (kDx) store_n(dx + at, Vec<A>(g * factor), count);
    }
    if constexpr (kDgain) store_n(dgain + c, sum, count);
  });
}

}  // namespace dtn::DTN_ISA
