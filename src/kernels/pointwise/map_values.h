// Elementwise functions of arrays on short vectors, in chunks that stay in the cache.
#pragma once

#include "dtn/core/parallel.h"
#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

// Elements per task: a multiple of every vector width, so only the last task has a tail.
inline constexpr std::int64_t kMapChunk = 1 << 15;

// y[i] = f(x[i], ...) for arrays of T, 0 <= i < count. f takes vectors of the accumulator type. y
// may be one of the inputs.
template <class T, class F, class... X>
void map_values(std::int64_t count, const F& f, void* y, const X*... x) {
  parallel_ranges(count, kMapChunk, [=](std::int64_t begin, std::int64_t end) {
    for_each_vector<AccumulatorOf<T>>(end - begin, [=](std::int64_t i, auto n) {
      i += begin;
      const Vec<AccumulatorOf<T>> value = f(load_n(static_cast<const T*>(x) + i, n)...);
      store_n(static_cast<T*>(y) + i, value, n);
    });
  });
}

}  // namespace dtn::DTN_ISA
