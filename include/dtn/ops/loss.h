// Softmax cross-entropy, plain, weighted and focal, binary cross-entropy and distillation.
#pragma once

#include <optional>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Targets of a loss: class labels, labels of mixed images, or arbitrary soft targets.
struct Targets {
  Tensor labels;         // [B] int64 in [0, K), or undefined
  Tensor soft;           // [B, K] accumulator type, used when labels is undefined
  double smoothing = 0;  // label smoothing, with labels
  // For mixed images, with labels, both or none: the label of the image mixed in, [B] int64, and
  // the weight of the image's own label, [B] float32 in [0, 1].
  Tensor partner_labels{}, label_share{};
};

// Loss of a batch.
struct LossResult {
  Variable mean;      // [1], accumulator type
  Tensor per_sample;  // [B]
};

// logits [B, K]. If the labels are on the CPU, throws Error naming the first one outside [0, K).
LossResult cross_entropy(Context&, const Variable& logits, const Targets& targets);

// Weights in a softmax cross-entropy.
struct ClassWeighting {
  Tensor weights{};  // [K] accumulator type, at least 0, on the device of the logits; undefined: 1
  double gamma = 0;  // exponent of the focal factor, at least 0
};

// Softmax cross-entropy with class weights w and the factor of the focal loss (Lin et al., "Focal
// loss for dense object detection", ICCV 2017), for the probabilities p and the targets t:
//     sum over k of t_k w_k (1 - p_k)^gamma (-log p_k)
// The mean is over the B samples. PyTorch's weighted mean for labels is the same times
// B / sum_class_weights(); for soft targets, PyTorch has the mean over the samples, too. logits
// [B, K]. Throws as cross_entropy() does.
LossResult weighted_cross_entropy(Context&, const Variable& logits, const Targets& targets,
                                  const ClassWeighting& weighting);

// Sum of the weights [K] of labels [B] int64: [1], without a gradient. On the CPU throws Error for
// a label outside [0, K); a GPU gives NaN.
Tensor sum_class_weights(const Tensor& weights, const Tensor& labels);

// Treatment of the targets and the classes in binary cross-entropy.
struct BinaryOptions {
  std::optional<double> threshold;  // targets become 1 above it and 0 elsewhere; unset: unchanged
  bool sum = false;  // the loss of a sample is the sum over the classes instead of the mean
};

// Binary cross-entropy of each class, for the logit z and the target t:
//     log(1 + e^z) - z t
// then the mean over the classes, or their sum. logits [B, K]. Throws as cross_entropy() does.
LossResult binary_cross_entropy(Context&, const Variable& logits, const Targets& targets,
                                const BinaryOptions& options = {});

// Distillation target and its options.
struct DistillOptions {
  bool hard = true;        // the target is the teacher's top class, else its probabilities
  double temperature = 1;  // soft: logits are divided by it
  bool mean = false;       // soft: mean over the classes instead of the sum
};

// Distillation loss between student and teacher, the mean over a batch, [1]:
//     hard: cross-entropy of the student with the teacher's top class (the first of equals)
//     soft: T^2 KL(softmax(t / T) || softmax(s / T)), the sum over the classes or their mean
// logits s [B, K]; teacher t [B, K] in the accumulator type, without a gradient. A NaN of the
// teacher makes the loss NaN.
Variable distillation(Context&, const Variable& logits, const Tensor& teacher,
                      const DistillOptions& options = {});

namespace reference {
Variable cross_entropy(Context&, const Variable& logits, const Targets& targets);
Variable weighted_cross_entropy(Context&, const Variable& logits, const Targets& targets,
                                const ClassWeighting& weighting);
Variable binary_cross_entropy(Context&, const Variable& logits, const Targets& targets,
                              const BinaryOptions& options = {});
Variable distillation(Context&, const Variable& logits, const Tensor& teacher,
                      const DistillOptions& options = {});
}  // namespace reference
}  // namespace dtn::ops
