// Classification of images with any number of classes each: a separate decision for each class, by
// binary cross-entropy. Evaluations measure the mean average precision (mAP) and F1 at a threshold.
//
// Fields: "image" [C, H, W] float32, "labels" [K] float32: 1 for the classes of the image, 0 for
// the others, or for mixed images a number between. Outputs: "logits" [n, K] float32.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtn/tasks/classify.h"

namespace dtn {

class Multilabel final : public Classify {
 public:
  // The threshold of a model for which no evaluation has found one.
  static constexpr double kUsualThreshold = 0.5;

  explicit Multilabel(const TaskSetup&);

  // The mean over samples and classes.
  Variable loss(Context&, const Fields& batch, std::vector<Term>& logged) override;
  bool finds_threshold() const override { return true; }
  // In training, it finds the threshold with the largest micro F1. After load_weights() for
  // evaluation, it measures F1 at the threshold of the weights.
  std::unique_ptr<Meter> meter() const override;
  std::vector<std::string> load_weights(const std::string& file, WeightsUse use) override;
  std::string objective() const override;

  // An image has the classes whose probabilities, sigmoid(logit), are at least the threshold. In
  // (0, 1]; unset before load_weights() for evaluation.
  const std::optional<double>& threshold() const { return threshold_; }

 private:
  std::shared_ptr<const Dataset> open(Split) const override;

  std::optional<double> threshold_;
};

}  // namespace dtn
