// Inputs of one output of a pooling; see pool_tokens.h.
#pragma once

#include "dtn/core/host_device.h"
#include "kernels/conv/pool_tokens.h"

namespace dtn {

// Window of output (i, j) without its padding: rows [top, bottom) and columns [left, right) of the
// input.
struct PoolInputs {
  std::int64_t top, bottom, left, right;

  DTN_HOST_DEVICE PoolInputs(const Window& w, std::int64_t i, std::int64_t j) {
    const std::int64_t y = i * w.stride_h - w.pad_h, x = j * w.stride_w - w.pad_w;
    top = y > 0 ? y : 0, bottom = y + w.kernel_h < w.height ? y + w.kernel_h : w.height;
    left = x > 0 ? x : 0, right = x + w.kernel_w < w.width ? x + w.kernel_w : w.width;
  }
  // Returns the factor by which an average multiplies the sum of its inputs.
  template <class A>
  DTN_HOST_DEVICE A average_factor(WindowPooling kind, const Window& w) const {
    const std::int64_t inside = (bottom - top) * (right - left);
    return A(1) /
           static_cast<A>(kind == WindowPooling::kAverage ? inside : w.kernel_h * w.kernel_w);
  }
};

}  // namespace dtn
