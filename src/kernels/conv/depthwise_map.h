// Sources and places of a depthwise convolution of tokens, for both directions.
#pragma once

#include "kernels/conv/axis_taps.h"
#include "kernels/conv/convolution.h"

namespace dtn::depthwise {

// Sources and places of all images. Either may be the input of the convolution.
struct Map : GridTaps {
  std::int64_t batch, channels, kernel_w;
  std::int64_t height, width;  // of the image that is written

  // Index of tap (u, v) in the kernel.
  DTN_HOST_DEVICE std::int64_t tap(std::int64_t u, std::int64_t v) const {
    return (h.tap + u * h.tap_step) * kernel_w + w.tap + v * w.tap_step;
  }
};

// Outputs from inputs.
static inline Map forward_map(const ConvolutionShape& s) {
  const Window& w = s.window;
  return {forward_taps(w), s.batch, s.channels, w.kernel_w, w.out_h, w.out_w};
}
// Inputs of one phase of the strides from outputs.
static inline Map backward_map(const ConvolutionShape& s, std::int64_t phase) {
  const Window& w = s.window;
  return {backward_taps(w, phase), s.batch, s.channels, w.kernel_w, w.height, w.width};
}

}  // namespace dtn::depthwise
