// Switchable normalization as an operation. The formulas are in kernels/norm/switchable_norm.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dtn/autograd/context.h"
#include "ops/norm/channel_norm.h"

namespace dtn::ops {

// Inputs besides x [B, T, C].
struct SwitchableNormInputs {
  Variable weight, bias;             // [C]
  Variable mean_weight, var_weight;  // [3], logits of the shares of instance, layer and batch
  Tensor running_mean, running_var;  // [C], used in evaluation
  Tensor next_mean, next_var;        // [C], the running statistics after a training step
  double momentum, eps;
  // Number of valid tokens of each sample, before its pads, on the host and on any device; empty
  // and undefined: all T tokens are valid.
  std::vector<std::int64_t> counts{};
  Tensor lengths{};
};

// In training x is a share of `batch`, or the whole batch if `batch` is null; the step fills the
// `next` tensors, unless it repeats a checkpointed block. Pads stay 0.
Variable switchable_norm(Context&, const Variable& x, const SwitchableNormInputs&,
                         std::shared_ptr<const SharedBatch> batch);

namespace reference {
// Changes no running statistics.
Variable switchable_norm(Context&, const Variable& x, const SwitchableNormInputs&);
}  // namespace reference
}  // namespace dtn::ops
