// PowerNorm (Shen et al., "PowerNorm: Rethinking Batch Normalization in Transformers", ICML 2020),
// in the form of its authors' code: the tokens of a batch are rows, the C channels of a row divide
// into groups of D = C / groups channels, and with g(c) the group of channel c
//   s[r, g]  = (mean over the channels of g of x[r]^2 + eps)^-1/2
//   z0[r, c] = x[r, c] s[r, g(c)]
//   phi[c]   = mean_r z0^2
//   z[r, c]  = z0[r, c] / psi[c]
//   y        = weight z + bias
// where psi^2 - eps is phi up to iteration `warmup` of the training and running_phi later and in
// evaluation. In training, iteration n = 1, 2, ... moves the running value,
//   n < warmup:  running_phi = running_phi (n - 1) / n + phi / n
//   then always  running_phi = alpha_forward running_phi + (1 - alpha_forward) phi
// and psi counts as a constant in the backward pass; a running mean makes up for it (Algorithm 2):
//   g   = dy weight
//   nu  = (1 - alpha_backward) ema_gz
//   dz0 = (g - nu z) / psi
//   ema_gz += mean_r (g - nu z) z
// The division is by the psi of the forward pass, as in the paper; the authors' code divides by the
// phi of the batch, which after the warmup is another number.
//
// A training pass is PowerNormSquares, PowerNormForward, PowerNormBackward, PowerNormFeedback; the
// sums that the first and the third leave may be added up over several processes in between. What
// depends on the iteration is decided where the numbers are, so that nothing is read back.
//
// x, y and activation gradients have `dtype`; everything else has the accumulator type (float32;
// float64 for float64). Activation gradients are written (=), parameter gradients are added to
// (+=). Sums over rows are taken in chunks fixed by the shape, so they do not depend on threads.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct PowerNormShape {
  DType dtype;
  std::int64_t rows, channels, groups;  // groups divide the channels
  double eps;
};

// squares[c] = sum_r z0^2
struct PowerNormSquares {
  PowerNormShape shape;
  const void* x;  // [rows, C]
  void* squares;  // [C], written (=)
};
void run(CpuQueue&, const PowerNormSquares&);
void run(CudaQueue&, const PowerNormSquares&);

// Without rows, as a process has none that count, rpsi is written and the statistics move all the same.
struct PowerNormForward {
  PowerNormShape shape;
  const void* x;            // [rows, C]
  const void* weight;       // [C]
  const void* bias;         // [C]
  const void* running_phi;  // [C], as the step found it
  void* y;                  // [rows, C]; may be x
  void* rpsi;               // [C]: 1 / psi, for backward

  // Training; in evaluation all that follows is left out.
  const void* squares = nullptr;     // [C], of `count` rows
  std::int64_t count = 0;            // of all processes
  const void* iterations = nullptr;  // [1]: how many steps came before
  std::int64_t warmup = 0;
  double alpha = 0;                  // alpha_forward
  void* power = nullptr;             // [C]: mean_r z^2 = phi / psi^2, for PowerNormFeedback
  void* next_running_phi = nullptr;  // [C], moved on; null: stays, as does the next
  void* next_iterations = nullptr;   // [1] = iterations + 1
};
void run(CpuQueue&, const PowerNormForward&);
void run(CudaQueue&, const PowerNormForward&);

// With d = dz0 as above (nu is 0 in evaluation) and z0's own derivative:
//   dx = s (d - z0 mean over the channels of the group (d z0)) + dx_add
//   dweight += dot,   dot[c] = sum_r dy z,   dbias += sum_r dy
struct PowerNormBackward {
  PowerNormShape shape;
  const void* x;                 // [rows, C]
  const void* weight;            // [C]
  const void* rpsi;              // [C]
  const void* ema_gz = nullptr;  // [C], as the step found it; null in evaluation
  double alpha = 0;              // alpha_backward
  const void* dy;                // [rows, C]
  const void* dx_add = nullptr;  // [rows, C] dtype: what reaches x along the residual; may be dx
  void* dx = nullptr;            // [rows, C], written (=); may be dy
  void* dweight = nullptr;       // [C], +=
  void* dbias = nullptr;         // [C], +=
  void* dot = nullptr;           // [C], written (=), for PowerNormFeedback
};
void run(CpuQueue&, const PowerNormBackward&);
void run(CudaQueue&, const PowerNormBackward&);

// Moves ema_gz on: with mean_r (g z) = weight dot / count,
//   next_ema_gz += weight dot / count - (1 - alpha_backward) next_ema_gz power.
// This is the formula above for the first micro-batch of a step; further ones go on from there, as
// further steps would.
struct PowerNormFeedback {
  DType dtype;  // the accumulator type
  std::int64_t channels, count;
  double alpha;
  const void* weight;  // [C]
  const void* dot;     // [C], of `count` rows
  const void* power;   // [C]
  void* next_ema_gz;   // [C], moved on
};
void run(CpuQueue&, const PowerNormFeedback&);
void run(CudaQueue&, const PowerNormFeedback&);

}  // namespace dtn
