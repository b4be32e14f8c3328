// The largest logit of a row, on the CPU.
#pragma once

#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

// Loads up to a vector of values. The missing lanes are `fill`.
template <class T, class N>
inline Vec<AccumulatorOf<T>> load_or(const T* p, N count, AccumulatorOf<T> fill) {
  if constexpr (std::is_same_v<N, int>) {
    Vec<AccumulatorOf<T>> v = broadcast(fill);
    for (int i = 0; i < count; ++i) v[i] = static_cast<AccumulatorOf<T>>(p[i]);
    return v;
  } else {
    return load(p);
  }
}

template <class A>
constexpr A infinity_of() {
  return static_cast<A>(__builtin_inf());
}

template <class T>
AccumulatorOf<T> row_max(const T* z, std::int64_t classes) {
  using A = AccumulatorOf<T>;
  Vec<A> largest = broadcast(-infinity_of<A>());
  for_each_vector<A>(classes, [&](std::int64_t k, auto count) {
    largest = max(largest, load_or(z + k, count, -infinity_of<A>()));
  });
  return reduce_max(largest);
}

}  // namespace dtn::DTN_ISA
