// Softmax cross-entropy.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// What the logits are held against: class labels, those of images that were mixed, or any soft
// targets.
struct Targets {
  Tensor labels;         // [B] int64 in [0, K), or undefined
  Tensor soft;           // [B, K] accumulator type, used when labels is undefined
  double smoothing = 0;  // label smoothing, with labels
  // With labels, both or none: the label of the image that each was mixed with, [B] int64, and how
  // much its own counts, [B] float32 in [0, 1].
  Tensor partner_labels{}, label_share{};
};

struct LossResult {
  Variable mean;      // [1], accumulator type
  Tensor per_sample;  // [B]
};

// logits [B, K]. Throws Error naming the first label outside [0, K), where they are on the CPU.
LossResult cross_entropy(Context&, const Variable& logits, const Targets& targets);

namespace reference {
Variable cross_entropy(Context&, const Variable& logits, const Targets& targets);
}
}  // namespace dtn::ops
