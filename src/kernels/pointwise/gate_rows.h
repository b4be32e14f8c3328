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

// dx = gain dy
template <class T>
inline void gate_backward_row(std::int64_t channels, const AccumulatorOf<T>* gain, const T* dy,
                              T* dx) {
  using A = AccumulatorOf<T>;
  for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
    store_n(dx + c, Vec<A>(load_n(dy + c, count) * load_n(gain + c, count)), count);
  });
}

// dgain += dy x
template <class T>
inline void add_gate_gradient_row(std::int64_t channels, const T* x, const T* dy,
                                  AccumulatorOf<T>* dgain) {
  using A = AccumulatorOf<T>;
  for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
    const Vec<A> v = load_n(dy + c, count) * load_n(x + c, count);
    store_n(dgain + c, Vec<A>(load_n(dgain + c, count) + v), count);
  });
}

}  // namespace dtn::DTN_ISA
