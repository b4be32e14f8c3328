// The windows of images side by side, which makes a convolution a matrix product, and back.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/primitive/window.h"

namespace dtn {

// columns[p, (u, v), (i, j)] = x[p, i stride_h + u - pad_h, j stride_w + v - pad_w], or 0 outside.
struct Unfold {
  DType dtype;
  Window window;
  std::int64_t planes;  // images times channels
  const void* x;        // [planes, height, width]
  void* columns;        // [planes, kernel_h kernel_w, out_h out_w]
};
void run(CpuQueue&, const Unfold&);
void run(CudaQueue&, const Unfold&);

// dx[p, y, x] = sum over the (u, v), in order, of what Unfold made of it.
struct Fold {
  DType dtype;
  Window window;
  std::int64_t planes;
  const void* dcolumns;  // [planes, kernel_h kernel_w, out_h out_w]
  void* dx;              // [planes, height, width], written (=)
};
void run(CpuQueue&, const Fold&);
void run(CudaQueue&, const Fold&);

}  // namespace dtn
