// Convolution of each channel of tokens with a separate kernel, and its gradients:
//    y[b, (i, j), c] = bias[c] + sum over (u, v) of
//                      w[c, u, v] x[b, (i stride_h + u - pad_h, j stride_w + v - pad_w), c]
// x is 0 outside the grid. Tokens are in raster order, channels innermost. Sums are computed in the
// accumulator type and rounded once. The bits of the results depend on the shape alone.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/conv/window.h"

namespace dtn {

struct DepthwiseTokensForward {
  DType dtype;
  Window window;
  std::int64_t batch, channels;
  const void* x;       // [B, height width, C]
  const void* weight;  // [C, kernel_h, kernel_w]
  const void* bias;    // [C], accumulator type, or null
  void* y;             // [B, out_h out_w, C]

  double multiply_adds() const {
    return static_cast<double>(batch * channels * window.elements_seen());
  }
};
void run(CpuQueue&, const DepthwiseTokensForward&);
void run(CudaQueue&, const DepthwiseTokensForward&);

struct DepthwiseTokensBackwardInput {
  DType dtype;
  Window window;
  std::int64_t batch, channels;
  const void* dy;      // [B, out_h out_w, C]
  const void* weight;  // [C, kernel_h, kernel_w]
  void* dx;            // [B, height width, C], written (=)

  double multiply_adds() const {
    return static_cast<double>(batch * channels * window.elements_seen());
  }
};
void run(CpuQueue&, const DepthwiseTokensBackwardInput&);
void run(CudaQueue&, const DepthwiseTokensBackwardInput&);

struct DepthwiseTokensBackwardWeight {
  DType dtype;
  Window window;
  std::int64_t batch, channels;
  const void* x;   // [B, height width, C]
  const void* dy;  // [B, out_h out_w, C]
  void* dweight;   // [C, kernel_h, kernel_w], accumulator type, +=, or null
  void* dbias;     // [C], accumulator type, +=, or null

  double multiply_adds() const {
    return dweight ? static_cast<double>(batch * channels * window.elements_seen()) : 0;
  }
};
void run(CpuQueue&, const DepthwiseTokensBackwardWeight&);
void run(CudaQueue&, const DepthwiseTokensBackwardWeight&);

}  // namespace dtn
