// Convolution of each channel with a separate kernel, and its gradients:
//    y[b, c, i, j] = sum over (u, v) of w[c, u, v]
//                    x[b, c, i stride_h + u - pad_h, j stride_w + v - pad_w]
// x is 0 outside the plane. Sums are taken in the accumulator type.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/primitive/window.h"

namespace dtn {

struct DepthwiseForward {
  DType dtype;
  Window window;
  std::int64_t batch, channels;
  const void* x;       // [B, C, height, width]
  const void* weight;  // [C, kernel_h, kernel_w]
  void* y;             // [B, C, out_h, out_w]

  double multiply_adds() const {
    return static_cast<double>(batch * channels * window.elements_seen());
  }
};
void run(CpuQueue&, const DepthwiseForward&);
void run(CudaQueue&, const DepthwiseForward&);

struct DepthwiseBackwardInput {
  DType dtype;
  Window window;
  std::int64_t batch, channels;
  const void* dy;      // [B, C, out_h, out_w]
  const void* weight;  // [C, kernel_h, kernel_w]
  void* dx;            // [B, C, height, width], =

  double multiply_adds() const {
    return static_cast<double>(batch * channels * window.elements_seen());
  }
};
void run(CpuQueue&, const DepthwiseBackwardInput&);
void run(CudaQueue&, const DepthwiseBackwardInput&);

// Images are added in order.
struct DepthwiseBackwardWeight {
  DType dtype;
  Window window;
  std::int64_t batch, channels;
  const void* x;   // [B, C, height, width]
  const void* dy;  // [B, C, out_h, out_w]
  void* dweight;   // [C, kernel_h, kernel_w], accumulator type, =

  double multiply_adds() const {
    return static_cast<double>(batch * channels * window.elements_seen());
  }
};
void run(CpuQueue&, const DepthwiseBackwardWeight&);
void run(CudaQueue&, const DepthwiseBackwardWeight&);

}  // namespace dtn
