// Shapes and strides of arrays, as the primitive kernels take them.
#pragma once

#include <cstdint>

namespace dtn {

inline constexpr int kMaxDims = 6;

// Sizes of the dimensions; the last dimension varies fastest.
struct Extents {
  int rank = 0;
  std::int64_t size[kMaxDims] = {};
};

// Elements between neighbours along each dimension; 0 repeats one element.
struct Strides {
  std::int64_t step[kMaxDims] = {};
};

}  // namespace dtn
