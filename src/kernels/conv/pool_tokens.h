// Maximum and average pooling of tokens, channel by channel, and their gradients. Tokens are in
// raster order, channels innermost. A window's maximum is that of its inputs inside the grid, and
// NaN if one of them is NaN. The gradient of the maximum goes to the first input that has it.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/conv/window.h"

namespace dtn {

enum class WindowPooling : std::uint8_t {
  kMax,
  kAverage,        // over the inputs inside the grid
  kAveragePadded,  // over the whole window, padding counting as zeros
};

struct PoolTokensForward {
  DType dtype;
  WindowPooling kind;
  Window window;  // padding smaller than the kernel
  std::int64_t batch, channels;
  const void* x;  // [B, height width, C]
  void* y;        // [B, out_h out_w, C]
};
void run(CpuQueue&, const PoolTokensForward&);
void run(CudaQueue&, const PoolTokensForward&);

struct PoolTokensBackward {
  DType dtype;
  WindowPooling kind;
  Window window;
  std::int64_t batch, channels;
  const void* x;   // [B, height width, C], for kMax
  const void* dy;  // [B, out_h out_w, C]
  void* dx;        // [B, height width, C], written (=)
};
void run(CpuQueue&, const PoolTokensBackward&);
void run(CudaQueue&, const PoolTokensBackward&);

}  // namespace dtn
