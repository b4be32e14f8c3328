// Windows of images laid out as columns, so that a convolution becomes a matrix product; and back.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/primitive/window.h"

namespace dtn {

//    columns[p, (u, v), (i, j)] = x[p, i stride_h + u - pad_h, j stride_w + v - pad_w]
// Elements outside the plane are 0.
struct Unfold {
  DType dtype;
  Window window;
  std::int64_t planes;  // images times channels
  const void* x;        // [planes, height, width]
  void* columns;        // [planes, kernel_h kernel_w, out_h out_w]
};
void run(CpuQueue&, const Unfold&);
void run(CudaQueue&, const Unfold&);

// dx[p, y, x] = sum over (u, v), in order, of the elements that Unfold copies from x[p, y, x].
struct Fold {
  DType dtype;
  Window window;
  std::int64_t planes;
  const void* dcolumns;  // [planes, kernel_h kernel_w, out_h out_w]
  void* dx;              // [planes, height, width], =
};
void run(CpuQueue&, const Fold&);
void run(CudaQueue&, const Fold&);

}  // namespace dtn
