// The sums of a convolution along one axis. In the forward pass, an output sums the inputs under
// its window. In the backward pass, an input sums the outputs whose windows contain it. Inputs
// whose distance is a multiple of the stride see outputs in the same pattern. So the gradient
// splits into `stride` phases along an axis. Each phase is a separate correlation with stride 1.
// The functions are static, because every instruction set compiles its own copy.
#pragma once

#include <cstdint>

#include "dtn/core/host_device.h"
#include "kernels/conv/window.h"

namespace dtn {

// The places first + n step, 0 <= n < count, are written. Place n is the sum over 0 <= t < taps of
//    source (source + n source_step + t) times tap (tap + t tap_step) of the kernel
// Sources outside [0, sources) are zeros.
struct AxisTaps {
  std::int64_t first, step, count;
  std::int64_t source, source_step, sources;
  std::int64_t tap, tap_step, taps;

  DTN_HOST_DEVICE std::int64_t place(std::int64_t n) const { return first + n * step; }
  // The source for place n and tap 0; it may be outside.
  DTN_HOST_DEVICE std::int64_t first_source(std::int64_t n) const {
    return source + n * source_step;
  }
  // The taps [begin_of, end_of) of place n have their sources inside.
  DTN_HOST_DEVICE std::int64_t begin_of(std::int64_t n) const {
    const std::int64_t s = first_source(n);
    return s >= 0 ? 0 : -s < taps ? -s : taps;
  }
  DTN_HOST_DEVICE std::int64_t end_of(std::int64_t n) const {
    const std::int64_t room = sources - first_source(n), begin = begin_of(n);
    return room >= taps ? taps : room > begin ? room : begin;
  }
  DTN_HOST_DEVICE bool all_inside(std::int64_t n) const {
    return first_source(n) >= 0 && first_source(n) + taps <= sources;
  }
};

// Outputs from inputs.
static inline AxisTaps forward_taps(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
                                    std::int64_t stride, std::int64_t pad) {
  return {0, 1, outputs, -pad, stride, inputs, 0, 1, kernel};
}

// Inputs i with (i + pad) mod stride = phase, from outputs. Tap u = phase + k stride lies over
// input i in the window of output (i + pad - u) / stride. The taps run from last to first, so that
// the outputs are in ascending order.
static inline AxisTaps backward_taps(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
                                     std::int64_t stride, std::int64_t pad, std::int64_t phase) {
  AxisTaps a{};
  a.first = ((phase - pad) % stride + stride) % stride;
  a.step = stride;
  a.count = a.first < inputs ? (inputs - a.first + stride - 1) / stride : 0;
  a.taps = phase < kernel ? (kernel - phase + stride - 1) / stride : 0;
  a.source = (a.first + pad - phase) / stride - (a.taps - 1);
  a.source_step = 1;
  a.sources = outputs;
  a.tap = phase + (a.taps - 1) * stride;
  a.tap_step = -stride;
  return a;
}

// Both axes of a grid.
struct GridTaps {
  AxisTaps h, w;
};
static inline GridTaps forward_taps(const Window& w) {
  return {forward_taps(w.height, w.out_h, w.kernel_h, w.stride_h, w.pad_h),
          forward_taps(w.width, w.out_w, w.kernel_w, w.stride_w, w.pad_w)};
}
// There are stride_h stride_w phases.
static inline GridTaps backward_taps(const Window& w, std::int64_t phase) {
  return {backward_taps(w.height, w.out_h, w.kernel_h, w.stride_h, w.pad_h, phase / w.stride_w),
          backward_taps(w.width, w.out_w, w.kernel_w, w.stride_w, w.pad_w, phase % w.stride_w)};
}

}  // namespace dtn
