// The backward pass of an MLP's activation on CUDA devices, in one pass over memory: with z the
// pre-activation and dh the gradient of h = gelu(z),
//   dz = dh gelu'(z)
//   dbias += sum of the rows of dz
//   h = gelu(z), where the forward pass has not kept it
// from one exponential per element. h is what the weight gradient of the layer above reads, dbias
// is the bias gradient of the layer below. The CPU makes dz and h in the tiles of its matrix
// product, see LinearBackwardInput.
//
// The sum is taken of dz before it is rounded, over chunks of rows fixed by the shape, and these in
// order: the bits do not depend on the device.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct MlpGeluBackward {
  DType dtype;
  std::int64_t rows, columns;
  const void* z;          // [rows, columns]
  const void* dh;         // [rows, columns]
  void* dz;               // [rows, columns]; may be dh
  void* h = nullptr;      // [rows, columns]; may be z
  void* dbias = nullptr;  // [columns], accumulator type, +=
};
void run(CudaQueue&, const MlpGeluBackward&);

}  // namespace dtn
