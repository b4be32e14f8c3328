// Fused updates over flat float32 buffers. All take the gradient as stored and multiply it by
// grad_scale first, which carries 1 / micro-batches and the clipping factor.
#pragma once

#include <cstdint>

#include "dtn/core/dtype.h"
#include "dtn/core/queue.h"

namespace dtn {

// AdamW (Loshchilov & Hutter, "Decoupled weight decay regularization", ICLR 2019), as in PyTorch:
//   p -= lr wd p;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
//   p -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
// and the bfloat16 copy of p is refreshed when there is one. Computed in float32, with scalar
// factors such as 1 - lr wd in float64 first. Expects t >= 1 and betas below 1.
struct AdamWStep {
  std::int64_t count;
  float* param;
  float* m;
  float* v;
  const float* grad;
  bfloat16* param_bf16 = nullptr;
  double lr, beta1, beta2, eps, weight_decay;
  std::int64_t t;  // 1 for the first update
  double grad_scale = 1;
};
void run(CpuQueue&, const AdamWStep&);

// SGD with momentum, as in PyTorch: g += wd p;  buf = mu buf + g (buf = g at t = 1);  p -= lr buf.
struct SgdStep {
  std::int64_t count;
  float* param;
  float* momentum_buffer;  // not read at t = 1; may be null when momentum is 0
  const float* grad;
  bfloat16* param_bf16 = nullptr;
  double lr, momentum, weight_decay;
  std::int64_t t;
  double grad_scale = 1;
};
void run(CpuQueue&, const SgdStep&);

// average = decay average + (1 - decay) param.
struct EmaStep {
  std::int64_t count;
  float* average;
  const float* param;
  double decay;
};
void run(CpuQueue&, const EmaStep&);

// Sum of squares in float64, in fixed chunks added in order; not finite when any element is not.
struct SumSquares {
  std::int64_t count;
  const float* x;
  double* result;
};
void run(CpuQueue&, const SumSquares&);

}  // namespace dtn
