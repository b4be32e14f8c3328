// Windows that slide over a grid, for convolutions and poolings.
#pragma once

#include <cstdint>

namespace dtn {

// Output (i, j) sees these inputs, for 0 <= u < kernel_h and 0 <= v < kernel_w:
//    (i stride_h + u - pad_h, j stride_w + v - pad_w)
// Inputs outside [0, height) x [0, width) are padding.
struct Window {
  std::int64_t height, width;  // of the input
  std::int64_t out_h, out_w;   // (height + 2 pad_h - kernel_h) / stride_h + 1, likewise
  std::int64_t kernel_h, kernel_w;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_h = 0, pad_w = 0;
};

}  // namespace dtn
