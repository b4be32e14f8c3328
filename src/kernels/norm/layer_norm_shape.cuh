// Distribution of a row over a warp in layer normalization, forward and backward.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/lanes.cuh"
#include "kernels/norm/layer_norm.h"

namespace dtn {

// Returns true if rows of T and float32 parameters at these addresses can be read in 16-byte
// vectors. Addresses may be null.
template <class T>
bool rows_are_wide(std::int64_t channels, std::initializer_list<const void*> places) {
  for (const void* p : places) {
    if (!cuda::is_vectorizable<T>(p, channels)) return false;
  }
  return true;
}

// Loads the parameters from offset `at` on. Fills `to` with `otherwise` if `from` is null.
template <class Row>
__device__ __forceinline__ void load_parameters(const float* from, std::int64_t at, float otherwise,
                                                float (&to)[Row::kRun]) {
  if (from) return Row::load_float_run(from + at, to);
#pragma unroll
  for (int k = 0; k < Row::kRun; ++k) to[k] = otherwise;
}

// The same for gains, which may be stored as scales.
template <class Row>
__device__ __forceinline__ void load_gains(const float* from, const ParameterSets& sets,
                                           std::int64_t at, float (&to)[Row::kRun]) {
  load_parameters<Row>(from, at, 1, to);
  if (!sets.scales) return;
#pragma unroll
  for (int k = 0; k < Row::kRun; ++k) to[k] += 1.0f;
}

// Returns the gain of column `at`, or 1 if `from` is null.
__device__ __forceinline__ float gain_at(const float* from, const ParameterSets& sets,
                                         std::int64_t at) {
  if (!from) return 1.0f;
  return sets.scales ? from[at] + 1.0f : from[at];
}

// Returns true if a warp holds a whole row in registers. Longer rows take a thread block each.
// Loads of single values need an address each, so fewer values fit.
inline bool is_held(std::int64_t channels, bool wide) { return channels <= (wide ? 1024 : 512); }

// Calls f(values, wide) with the number of values per lane for such a row. Both are constants.
template <class F>
void for_held_row(std::int64_t channels, bool wide, F&& f) {
  auto with = [&](auto values) {
    wide ? f(values, std::true_type{}) : f(values, std::false_type{});
  };
  if (channels <= 256) return with(std::integral_constant<int, 8>{});
  if (channels <= 512) return with(std::integral_constant<int, 16>{});
  if (channels <= 768) return f(std::integral_constant<int, 24>{}, std::true_type{});
  f(std::integral_constant<int, 32>{}, std::true_type{});
}

}  // namespace dtn
