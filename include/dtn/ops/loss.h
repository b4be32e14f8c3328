// Softmax cross-entropy, binary cross-entropy and distillation.
#pragma once

#include <optional>

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

// How binary cross-entropy takes its targets.
struct BinaryOptions {
  std::optional<double> threshold;  // targets become 1 above it and 0 elsewhere; unset: they stay
  bool sum = false;  // the loss of a sample is the sum over the classes, not the mean
};

// Each class is a question of its own: log(1 + e^z) - z t for the logit z and the target t, the
// mean over the classes or their sum. logits [B, K]. Throws as cross_entropy() does.
LossResult binary_cross_entropy(Context&, const Variable& logits, const Targets& targets,
                                const BinaryOptions& options = {});

// What a student is to learn of a teacher's logits.
struct DistillOptions {
  bool hard = true;        // the class of the largest, else all probabilities
  double temperature = 1;  // soft: logits are divided by it
  bool mean = false;       // soft: over the classes, in place of their sum
};

// How far a student is from its teacher, the mean over a batch, [1]:
//   hard: the cross-entropy of the student with the teacher's first class
//   soft: T^2 KL(softmax(t / T) || softmax(s / T)), summed over the classes or their mean
// logits s [B, K], teacher t [B, K] of the accumulator type, without a gradient. NaN from the teacher
// makes the loss NaN.
Variable distillation(Context&, const Variable& logits, const Tensor& teacher,
                      const DistillOptions& options = {});

namespace reference {
Variable cross_entropy(Context&, const Variable& logits, const Targets& targets);
Variable binary_cross_entropy(Context&, const Variable& logits, const Targets& targets,
                              const BinaryOptions& options = {});
Variable distillation(Context&, const Variable& logits, const Tensor& teacher,
                      const DistillOptions& options = {});
}  // namespace reference
}  // namespace dtn::ops
