// Slices of a dimension that an index selects, in any order and number, and their gradient. x is
// viewed as [outer, extent, inner].
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

//    y[o, r, i] = x[o, index[r], i]
// The caller should reject an index outside [0, extent). It gives NaN and no gradient.
struct SelectForward {
  DType dtype;
  std::int64_t outer, extent, inner, count;
  const void* x;              // [outer, extent, inner]
  const std::int64_t* index;  // [count]
  void* y;                    // [outer, count, inner]
};
void run(CpuQueue&, const SelectForward&);
void run(CudaQueue&, const SelectForward&);

// dx[o, index[r], i] += dy[o, r, i], in the order of r. On CUDA devices, the sums of one small
// table are made in chunks of r, in a fixed order.
struct SelectBackward {
  DType dtype;  // of dy; dx has the accumulator type
  std::int64_t outer, extent, inner, count;
  const std::int64_t* index;  // [count]
  const void* dy;             // [outer, count, inner]
  void* dx;                   // [outer, extent, inner], +=
};
void run(CpuQueue&, const SelectBackward&);
void run(CudaQueue&, const SelectBackward&);

}  // namespace dtn
