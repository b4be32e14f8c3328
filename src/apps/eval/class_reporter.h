// The report on a model that chooses one class for each sample.
#pragma once

#include "apps/eval/model_reporter.h"
#include "apps/report/class_report.h"

namespace dtn::app {

// Reads "label" [n] int64. Appends `macro_f1` and `ece` to the metrics.
class ClassReporter final : public ModelReporter {
 public:
  ClassReporter(const ReportOptions& options, const ReportedModel& model)
      : ModelReporter(options, model) {}

  void add(std::span<const std::int64_t> indices, const Fields& truths,
           const Tensor& logits) override;

 private:
  SampleReport& report() override { return report_; }
  const char* label_field() const override { return "label"; }
  const char* label_tensor() const override { return "'labels' [N] int64"; }
  void write(const std::filesystem::path& folder, Metrics& metrics) override;

  ClassReport report_;
};

}  // namespace dtn::app
