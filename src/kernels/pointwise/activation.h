// Elementwise activation functions and their derivatives:
//   relu(x) = max(x, 0), with slope 0 at 0
//   silu(x) = x / (1 + e^-x)
//   tanh(x)
// NaN stays NaN. bfloat16 is computed in float32 and rounded once.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

enum class Activation { kRelu, kSilu, kTanh };

struct ActivationForward {
  DType dtype;
  Activation kind;
  std::int64_t count;
  const void* x;
  void* y;  // may be x
};
void run(CpuQueue&, const ActivationForward&);
void run(CudaQueue&, const ActivationForward&);

// dx = dy f'(x)
struct ActivationBackward {
  DType dtype;
  Activation kind;
  std::int64_t count;
  const void* x;
  const void* dy;
  void* dx;  // may be dy
};
void run(CpuQueue&, const ActivationBackward&);
void run(CudaQueue&, const ActivationBackward&);

}  // namespace dtn
