// The report on a model of samples with any number of classes.
#pragma once

#include "apps/eval/model_reporter.h"
#include "apps/report/label_report.h"

namespace dtn::app {

// Reads "labels" [n, K] float32, 0 or 1.
class LabelReporter final : public ModelReporter {
 public:
  // Throws ConfigError unless the task of the model is Multilabel.
  LabelReporter(const ReportOptions& options, const ReportedModel& model);

  void add(std::span<const std::int64_t> indices, const Fields& truths,
           const Tensor& logits) override;

 private:
  SampleReport& report() override { return report_; }
  const char* label_field() const override { return "labels"; }
  const char* label_tensor() const override { return "'labels' [N, K] of 0 and 1"; }
  void write(const std::filesystem::path& folder, Metrics& metrics) override;

  double threshold_;
  LabelReport report_;
};

}  // namespace dtn::app
