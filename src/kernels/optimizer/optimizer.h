// Fused updates of flat float32 buffers. All take the gradient as stored and first multiply it by
// grad_scale, which contains 1 / micro-batches and the clipping factor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// Maximum number of scheduled values of a task.
inline constexpr std::size_t kMaxScheduled = 4;

// Inputs that change from step to step, in device memory, where a captured step reads them.
struct StepInputs {
  double lr;
  double weight_decay;  // of the parameters that decay
  std::uint32_t step;   // finished optimizer steps; key of the random numbers
  // Values that the task schedules, such as the momentum of a teacher.
  double scheduled[kMaxScheduled] = {};
};

// State of the update after a step's gradients, computed on their device.
struct UpdateState {
  std::int64_t updates = 0;  // updates so far, including this one
  double loss = 0;           // mean over the global batch
  double grad_norm = 0;      // before clipping
  double grad_scale = 0;     // factor of the gradients: 1 / micro-batches, and clipping
  std::int64_t finite = 0;   // 0: loss or norm is not finite, and the update is skipped
  // Bias corrections 1 - beta^updates for these betas; with a beta of -1 none were computed.
  double beta1 = -1, beta2 = -1, correction1 = 0, correction2 = 0;
};

// Fills *state from the sums of a step: with scale = 1 / micro-batches,
//   loss = *loss_sum scale
//   grad_norm = sqrt(*sum_squares) scale
//   grad_scale = scale, times clip / (grad_norm + epsilon) when clip > 0 and grad_norm > clip
// and counts the update if loss and norm are finite. With betas it also computes the bias
// corrections, two powers in float64 that every block of the update would otherwise compute.
struct PrepareUpdate {
  const float* loss_sum;      // of the micro-batches' mean losses
  const double* sum_squares;  // of all gradients
  double scale, clip;         // clip 0: no clipping
  UpdateState* state;
  double epsilon = 1e-6;
  double beta1 = -1, beta2 = -1;  // for AdamW or LAMB
};
void run(CpuQueue&, const PrepareUpdate&);
void run(CudaQueue&, const PrepareUpdate&);

// Fills *late, the state of the update of late parameters, after PrepareUpdate. It is a copy of
// *state with
//   finite = state->finite and inputs->step >= from_step
// and with its own number of updates and bias corrections.
struct PrepareLateUpdate {
  const UpdateState* state;
  const StepInputs* inputs;
  std::int64_t from_step;
  double beta1, beta2;  // as for PrepareUpdate
  UpdateState* late;    // late->updates: late updates so far
};
void run(CpuQueue&, const PrepareLateUpdate&);
void run(CudaQueue&, const PrepareLateUpdate&);

// AdamW (Loshchilov & Hutter, "Decoupled weight decay regularization", ICLR 2019), as in PyTorch:
//   p -= lr wd p;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
//   p -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
// The bfloat16 copy of p is updated if there is one. Computed in float32; scalar factors such as
// 1 - lr wd are first computed in float64. Expects t >= 1 and betas below 1.
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
  // In device memory. If set, they replace lr (times lr_factor), weight_decay (0 unless `decays`),
  // t and grad_scale, and nothing is written if the update is skipped.
  const StepInputs* inputs = nullptr;
  const UpdateState* state = nullptr;
  double lr_factor = 1;
  bool decays = true;  // the scheduled weight decay applies
};
void run(CpuQueue&, const AdamWStep&);
void run(CudaQueue&, const AdamWStep&);

// SGD with momentum, as in PyTorch:
//   g += wd p;  buf = mu buf + g (buf = g at t = 1);  p -= lr buf
// or with Nesterov momentum p -= lr (g + mu buf).
struct SgdStep {
  std::int64_t count;
  float* param;
  float* momentum_buffer;  // not read at t = 1; may be null when momentum is 0
  const float* grad;
  bfloat16* param_bf16 = nullptr;
  double lr, momentum, weight_decay;
  std::int64_t t;
  double grad_scale = 1;
  const StepInputs* inputs = nullptr;  // as for AdamW
  const UpdateState* state = nullptr;
  double lr_factor = 1;
  bool decays = true;
  bool nesterov = false;  // no effect without momentum
};
void run(CpuQueue&, const SgdStep&);
void run(CudaQueue&, const SgdStep&);

// Lion (Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023):
//   p -= lr wd p;  p -= lr sign(b1 m + (1 - b1) g);  m = b2 m + (1 - b2) g
// with sign(0) = 0.
struct LionStep {
  std::int64_t count;
  float* param;
  float* m;
  const float* grad;
  bfloat16* param_bf16 = nullptr;
  double lr, beta1, beta2, weight_decay;
  double grad_scale = 1;
  const StepInputs* inputs = nullptr;  // as for AdamW
  const UpdateState* state = nullptr;
  double lr_factor = 1;
  bool decays = true;
};
void run(CpuQueue&, const LionStep&);
void run(CudaQueue&, const LionStep&);

// average = decay average + (1 - decay) param. Nothing is written with a decay of 1. With warmup,
// after update t = state->updates, the decay is min(decay, 1 - t^(-2/3)). This is the decay of
// timm's ModelEmaV3 with gamma 1 and power 2/3, which counts from 0 and copies the weights after
// the first update.
struct EmaStep {
  std::int64_t count;
  float* average;
  const float* param;
  double decay;
  const UpdateState* state = nullptr;  // if set, nothing is written if the update is skipped
  bool warmup = false;                 // needs `state`
  // In device memory. If set, it replaces `decay`.
  const double* device_decay = nullptr;
};
void run(CpuQueue&, const EmaStep&);
void run(CudaQueue&, const EmaStep&);

// Ends a step for buffers that are learned without a gradient: value = next, or next = value if the
// update is skipped.
struct CommitBuffers {
  DType dtype;  // float32 or float64
  std::int64_t count;
  void* value;
  void* next;
  const UpdateState* state = nullptr;
};
void run(CpuQueue&, const CommitBuffers&);
void run(CudaQueue&, const CommitBuffers&);

// Sum of squares in float64, in fixed chunks added in order; not finite if any element is not.
struct SumSquares {
  std::int64_t count;
  const float* x;
  double* result;  // [1], on the device of x
};
void run(CpuQueue&, const SumSquares&);
void run(CudaQueue&, const SumSquares&);

}  // namespace dtn
