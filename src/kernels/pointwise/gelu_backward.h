// Backward pass of an MLP's activation on CUDA devices, in one pass over memory. z is the
// pre-activation and dh is the gradient of h = gelu(z):
//    dz = dh gelu'(z)
//    dbias += sum of the rows of dz
//    h = gelu(z), if the forward pass has not kept it
// This takes one exponential per element. The weight gradient of the layer above reads h, and dbias
// is the bias gradient of the layer below. The CPU computes dz and h in the tiles of its matrix
// product; see LinearBackwardInput.
//
// dbias sums dz before rounding, over chunks of rows that depend only on the shape. The chunks are
// added in order, so the bits do not depend on the device.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct MlpGeluBackward {
  DType dtype;
  std::int64_t rows, columns;
  const void* z;           // [rows, columns]
  const void* dh;          // [rows, columns]
  void* dz;                // [rows, columns]; may be dh
  void* h = nullptr;       // [rows, columns]; may be z
  void* dbias = nullptr;   // [columns], accumulator type, +=
  bool gelu_tanh = false;  // gelu is the approximation by tanh of activation.h
};
void run(CudaQueue&, const MlpGeluBackward&);

}  // namespace dtn
