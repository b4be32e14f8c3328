// Loops over several dimensions whose arrays are stepped through with strides: what the primitive
// kernels take for a shape.
#pragma once

#include <cstdint>

namespace dtn {

inline constexpr int kMaxDims = 6;

// Extents, the last one fastest.
struct Extents {
  int rank = 0;
  std::int64_t size[kMaxDims] = {};
};

// Elements between neighbours along each dimension; 0 repeats one element.
struct Strides {
  std::int64_t step[kMaxDims] = {};
};

}  // namespace dtn
