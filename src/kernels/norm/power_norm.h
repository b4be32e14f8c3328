// PowerNorm (Shen et al., "PowerNorm: Rethinking Batch Normalization in Transformers", ICML 2020),
// in the form of the authors' code. The tokens of a batch are rows. The C channels of a row divide
// into groups of D = C / groups channels, and g(c) is the group of channel c:
//    s[r, g]  = (mean over the channels of g of x[r]^2 + eps)^-1/2
//    z0[r, c] = x[r, c] s[r, g(c)]
//    phi[c]   = mean_r z0^2
//    z[r, c]  = z0[r, c] / psi[c]
//    y        = weight z + bias
// psi^2 - eps is phi up to iteration `warmup` of the training, and running_phi later and in
// evaluation. In training, iteration n = 1, 2, ... updates the running value:
//    n < warmup:  running_phi = running_phi (n - 1) / n + phi / n
//    then always  running_phi = alpha_forward running_phi + (1 - alpha_forward) phi
// The backward pass treats psi as a constant. A running mean compensates for this (Algorithm 2):
//    g   = dy weight
//    nu  = (1 - alpha_backward) ema_gz
//    dz0 = (g - nu z) / psi
//    ema_gz += mean_r (g - nu z) z
// The division is by the psi of the forward pass, as in the paper. The authors' code divides by the
// phi of the batch, which is a different number after the warmup.
//
// A training pass runs PowerNormSquares, PowerNormForward, PowerNormBackward and PowerNormFeedback.
// The sums that PowerNormSquares and PowerNormBackward write may be added up over several processes
// before the next kernel. The kernels read the iteration on their device, so nothing is copied back
// to the host.
//
// x, y and activation gradients have `dtype`. Everything else has the accumulator type (float32;
// float64 for float64). Activation gradients are overwritten (=), parameter gradients are
// accumulated (+=). Sums over rows are taken in chunks that depend only on the shape, so they do
// not depend on the number of threads.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct PowerNormShape {
  DType dtype;
  std::int64_t rows, channels, groups;  // groups divides channels
  double eps;
};

//    squares[c] = sum_r z0^2
struct PowerNormSquares {
  PowerNormShape shape;
  const void* x;  // [rows, C]
  void* squares;  // [C], =; untouched if there are no rows
};
void run(CpuQueue&, const PowerNormSquares&);
void run(CudaQueue&, const PowerNormSquares&);

// If a process has no rows, rpsi is still written and the running statistics are still updated.
struct PowerNormForward {
  PowerNormShape shape;
  const void* x;            // [rows, C]
  const void* weight;       // [C]
  const void* bias;         // [C]
  const void* running_phi;  // [C], at the start of the step
  void* y;                  // [rows, C]; may be x
  void* rpsi;               // [C]: 1 / psi, for backward

  // Training only. Evaluation leaves out everything below.
  const void* squares = nullptr;     // [C], over `count` rows
  std::int64_t count = 0;            // over all processes
  const void* iterations = nullptr;  // [1]: number of earlier steps
  std::int64_t warmup = 0;
  double alpha = 0;                  // alpha_forward
  void* power = nullptr;             // [C]: mean_r z^2 = phi / psi^2, for PowerNormFeedback
  void* next_running_phi = nullptr;  // [C], updated; null: no update, nor of iterations
  void* next_iterations = nullptr;   // [1] = iterations + 1
};
void run(CpuQueue&, const PowerNormForward&);
void run(CudaQueue&, const PowerNormForward&);

// d is dz0 as above, with nu = 0 in evaluation:
//    dx = s (d - z0 mean over the channels of the group (d z0)) + dx_add
//    dweight += dot,   dot[c] = sum_r dy z,   dbias += sum_r dy
struct PowerNormBackward {
  PowerNormShape shape;
  const void* x;                 // [rows, C]
  const void* weight;            // [C]
  const void* rpsi;              // [C]
  const void* ema_gz = nullptr;  // [C], at the start of the step; null in evaluation
  double alpha = 0;              // alpha_backward
  const void* dy;                // [rows, C]
  const void* dx_add = nullptr;  // [rows, C] dtype: gradient from the residual; may be dx
  void* dx = nullptr;            // [rows, C], =; may be dy
  void* dweight = nullptr;       // [C], +=
  void* dbias = nullptr;         // [C], +=
  void* dot = nullptr;           // [C], =, for PowerNormFeedback; untouched without rows
};
void run(CpuQueue&, const PowerNormBackward&);
void run(CudaQueue&, const PowerNormBackward&);

// Updates ema_gz, with mean_r (g z) = weight dot / count:
//    next_ema_gz += weight dot / count - (1 - alpha_backward) next_ema_gz power
// For the first micro-batch of a step this is the formula above. Further micro-batches continue
// from the result, as further steps would.
struct PowerNormFeedback {
  DType dtype;  // the accumulator type
  std::int64_t channels, count;
  double alpha;
  const void* weight;  // [C]
  const void* dot;     // [C], over `count` rows
  const void* power;   // [C]
  void* next_ema_gz;   // [C], updated
};
void run(CpuQueue&, const PowerNormFeedback&);
void run(CudaQueue&, const PowerNormFeedback&);

}  // namespace dtn
