// Maximum and average pooling of planes, and their gradients. The maximum of a window is over its
// inputs inside the plane, and is NaN if one of them is. Its gradient goes to the first input with
// the maximum, row by row.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/primitive/window.h"

namespace dtn {

enum class WindowPooling : std::uint8_t {
  kMax,
  kAverage,        // over the inputs inside the plane
  kAveragePadded,  // over the whole window, padding counting as zeros
};

struct PoolForward {
  DType dtype;
  WindowPooling kind;
  Window window;  // padding smaller than the kernel
  std::int64_t planes;
  const void* x;  // [planes, height, width]
  void* y;        // [planes, out_h, out_w]
};
void run(CpuQueue&, const PoolForward&);
void run(CudaQueue&, const PoolForward&);

struct PoolBackward {
  DType dtype;
  WindowPooling kind;
  Window window;
  std::int64_t planes;
  const void* x;   // [planes, height, width], for kMax
  const void* dy;  // [planes, out_h, out_w]
  void* dx;        // [planes, height, width], =
};
void run(CpuQueue&, const PoolBackward&);
void run(CudaQueue&, const PoolBackward&);

}  // namespace dtn
