// Softmax along rows, forward and backward:
//    y[r, i] = exp(x[r, i] - max_j x[r, j]) / sum_j exp(x[r, j] - max)
//    dx = y (dy - sum_j dy[r, j] y[r, j])
// Sums are taken in the accumulator type.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct SoftmaxForward {
  DType dtype;
  std::int64_t rows, columns;
  const void* x;
  void* y;  // may be x
};
void run(CpuQueue&, const SoftmaxForward&);
void run(CudaQueue&, const SoftmaxForward&);

struct SoftmaxBackward {
  DType dtype;
  std::int64_t rows, columns;
  const void* y;
  const void* dy;
  void* dx;  // may be dy
};
void run(CpuQueue&, const SoftmaxBackward&);
void run(CudaQueue&, const SoftmaxBackward&);

}  // namespace dtn
