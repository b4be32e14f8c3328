// Maximum and average pooling of tokens, channel by channel, and their gradients. Tokens are in
// raster order, channels innermost. What a window gives is what it gives of a plane (see
// kernels/primitive/pool.h): its maximum is that of the inputs inside the grid, NaN when one is, and
// has its gradient where it comes first.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/primitive/pool.h"

namespace dtn {

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
