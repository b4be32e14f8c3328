// Sums and maxima over any of the dimensions of an array. The order of the terms depends only on
// the shape, so the bits do not depend on the number of threads.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/primitive/strided.h"

namespace dtn {

enum class Reduction : std::uint8_t { kSum, kMax };

// y[kept indices] is scale times the sum of x over the reduced indices, or their maximum, which is
// NaN if one of them is. Sums are taken in the accumulator type and rounded once. No extent may
// be 0.
struct Reduce {
  DType dtype;    // of x
  DType y_dtype;  // dtype or its accumulator type
  Reduction kind;
  Extents extents;
  bool reduced[kMaxDims] = {};
  const void* x;     // dense
  void* y;           // dense, of the kept dimensions
  double scale = 1;  // of sums
};
void run(CpuQueue&, const Reduce&);
void run(CudaQueue&, const Reduce&);

}  // namespace dtn
