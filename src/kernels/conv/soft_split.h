// The soft split of T2T-ViT: every window of a zero-padded grid of tokens becomes one token.
//    y[b, (i, j), (c kernel_h + u) kernel_w + v] =
//        x[b, (i stride_h + u - pad_h, j stride_w + v - pad_w), c], or 0 outside the grid
// Tokens are in raster order, channels innermost.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/conv/window.h"

namespace dtn {

struct SoftSplitForward {
  DType dtype;
  Window window;
  std::int64_t batch, channels;
  const void* x;  // [B, height width, C]
  void* y;        // [B, out_h out_w, C kernel_h kernel_w]
};
void run(CpuQueue&, const SoftSplitForward&);
void run(CudaQueue&, const SoftSplitForward&);

// dx[b, (i, j), c] is the sum of the gradients of its copies, tap after tap.
struct SoftSplitBackward {
  DType dtype;
  Window window;
  std::int64_t batch, channels;
  const void* dy;  // [B, out_h out_w, C kernel_h kernel_w]
  void* dx;        // [B, height width, C], written (=)
};
void run(CpuQueue&, const SoftSplitBackward&);
void run(CudaQueue&, const SoftSplitBackward&);

}  // namespace dtn
