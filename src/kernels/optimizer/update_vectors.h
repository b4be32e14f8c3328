// One pass over the flat buffers of an update, on the CPU.
#pragma once

#include "dtn/core/parallel.h"
#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

// Elements per task, a multiple of every vector width. Elementwise results do not depend on it. The
// sum of squares does, so the value is part of that result's definition.
inline constexpr std::int64_t kUpdateChunk = 1 << 16;

// Calls f(i, count) for the vectors of all elements, in parallel. Each task copies f, so that the
// compiler can keep its captures in registers.
template <class F>
void for_all_vectors(std::int64_t elements, const F& f) {
  parallel_ranges(elements, kUpdateChunk, [&](std::int64_t begin, std::int64_t end) {
    const F each = f;
    for_each_vector<float>(end - begin,
                           [&](std::int64_t i, auto count) { each(begin + i, count); });
  });
}

// Stores p at element i of the parameters and of their bfloat16 copy, if there is one.
template <class Step, class N>
inline void store_params(const Step& step, std::int64_t i, VecF p, N count) {
  store_n(step.param + i, p, count);
  if (step.param_bf16) store_n(step.param_bf16 + i, p, count);
}

}  // namespace dtn::DTN_ISA
