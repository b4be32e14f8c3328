// Elementwise activation functions and their derivatives:
//    relu(x) = max(x, 0), with slope 0 at 0
//    silu(x) = x / (1 + e^-x)
//    tanh(x)
//    gelu_tanh(x) = x / (1 + e^-u), u = 2 sqrt(2 / pi) (x + 0.044715 x^3), which approximates GELU
//    quick_gelu(x) = x / (1 + e^-1.702 x)
//    hardswish(x) = x clip(x + 3, 0, 6) / 6, with slope 0 at -3 and 1 at 3
// NaN stays NaN. bfloat16 is computed in float32 and rounded once.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

enum class Activation { kRelu, kSilu, kTanh, kGeluTanh, kQuickGelu, kHardswish };

// Factors in the exponents.
inline constexpr double kGeluTanhScale = 1.5957691216057308, kGeluTanhCubic = 0.044715;
inline constexpr double kQuickGeluScale = 1.702;

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
