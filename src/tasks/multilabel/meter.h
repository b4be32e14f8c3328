// Figures of an evaluation of samples with any number of classes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dtn/core/metrics.h"
#include "tasks/label_figures/label_figures.h"

namespace dtn {

// `map`, `f1_micro`, `f1_macro`, `threshold` and `loss`, see label_figures.h. Reads "labels" [n, K]
// float32, 0 or 1, and "logits" [n, K] float32, and keeps them: 5 K bytes for each sample. With
// several ranks it reads "index" [n] int64, and samples count in the order of those positions.
class MultilabelMeter final : public Meter {
 public:
  // `threshold`: at which F1 is measured; unset: that with the largest micro F1 of these samples,
  // or 0.5 if no sample has a class.
  explicit MultilabelMeter(std::int64_t classes, std::optional<double> threshold);

  void add(const Fields& batch, const Fields& outputs) override;
  void merge(Communicator& ranks) override;
  Metrics result() const override;

  // The figures of result(), and those of each class.
  MultilabelFigures figures() const;

 private:
  LabelledLogits samples() const;

  std::int64_t classes_;
  std::optional<double> threshold_;
  std::int64_t count_ = 0;
  std::vector<std::int64_t> indices_;  // [samples]; empty if batches have no "index"
  std::vector<float> logits_;          // [samples, classes]
  std::vector<std::uint8_t> labels_;   // [samples, classes]
};

}  // namespace dtn
