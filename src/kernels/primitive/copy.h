// Copies of one strided array into another: permutations, slices, concatenations and repetitions of
// any element type.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/primitive/strided.h"

namespace dtn {

//    y[sum i_d y.step_d] = x[sum i_d x.step_d] for all i
// x and y must not overlap, and no element of y may be written twice.
struct StridedCopy {
  DType dtype;
  Extents extents;
  const void* x;
  Strides x_strides;
  void* y;
  Strides y_strides;
};
void run(CpuQueue&, const StridedCopy&);
void run(CudaQueue&, const StridedCopy&);

}  // namespace dtn
