// PowerNorm as an operation. The formulas are in kernels/norm/power_norm.h.
#pragma once

#include <cstdint>
#include <memory>

#include "dtn/autograd/context.h"
#include "ops/norm/channel_norm.h"

namespace dtn::ops {

struct PowerNormOptions {
  std::int64_t groups;  // of consecutive channels that are scaled first
  double eps;
  std::int64_t warmup;  // steps
  double alpha_forward, alpha_backward;
};

// The running values before a step, and memory for those after it. phi and gz have C elements, the
// number of iterations has one.
struct PowerNormState {
  Tensor running_phi, ema_gz, iterations;
  Tensor next_running_phi, next_ema_gz, next_iterations;
};

// Normalizes the rows of x [.., C]. In training x is a share of `batch`, or the whole batch if
// `batch` is null; the step fills the `next` tensors, unless it repeats a checkpointed block.
Variable power_norm(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                    const PowerNormOptions&, const PowerNormState&,
                    std::shared_ptr<const SharedBatch> batch);

namespace reference {
// Changes no state.
Variable power_norm(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                    const PowerNormOptions&, const PowerNormState&);
}  // namespace reference
}  // namespace dtn::ops
