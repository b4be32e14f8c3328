// Softmax cross-entropy.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// What the logits are held against: class labels, or soft targets from mixing images.
struct Targets {
  Tensor labels;         // [B] int64 in [0, K), or undefined
  Tensor soft;           // [B, K] accumulator type, used when labels is undefined
  double smoothing = 0;  // label smoothing, with labels
};

struct LossResult {
  Variable mean;      // [1], accumulator type
  Tensor per_sample;  // [B]
};

// logits [B, K]. Throws Error naming the first label outside [0, K).
LossResult cross_entropy(Context&, const Variable& logits, const Targets& targets);

namespace reference {
Variable cross_entropy(Context&, const Variable& logits, const Targets& targets);
}
}  // namespace dtn::ops
