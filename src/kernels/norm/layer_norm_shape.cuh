// How layer normalization lays a row over a warp, forward and backward.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/lanes.cuh"

namespace dtn {

// Whether rows of T, and parameters of float32, that begin at these places (or null) can be read in
// 16-byte vectors.
template <class T>
bool rows_are_wide(std::int64_t channels, std::initializer_list<const void*> places) {
  for (const void* p : places) {
    if (!cuda::is_vectorizable<T>(p, channels)) return false;
  }
  return true;
}

// The parameters from `at` on, or `otherwise` for those that are not there.
template <class Row>
__device__ __forceinline__ void load_parameters(const float* from, std::int64_t at, float otherwise,
                                                float (&to)[Row::kRun]) {
  if (from) return Row::load_float_run(from + at, to);
#pragma unroll
  for (int k = 0; k < Row::kRun; ++k) to[k] = otherwise;
}

// Whether a warp holds a whole row; longer ones have a block each. Single values need an address
// each, which leaves room for fewer.
inline bool is_held(std::int64_t channels, bool wide) { return channels <= (wide ? 1024 : 512); }

// Calls f(values, wide) with the number of values per lane for such a row, both as constants.
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
