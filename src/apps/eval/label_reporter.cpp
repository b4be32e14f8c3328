#include "apps/eval/label_reporter.h"

#include <algorithm>
#include <cmath>

#include "apps/eval/label_report_files.h"
#include "dtn/core/check.h"
#include "dtn/tasks/multilabel.h"
#include "io/atomic_file.h"

namespace dtn::app {
namespace {

double threshold_of(const Classify& task) {
  const auto* multilabel = dynamic_cast<const Multilabel*>(&task);
  if (!multilabel) throw ConfigError("the model's images have one class each");
  return multilabel->threshold().value_or(Multilabel::kUsualThreshold);
}

}  // namespace

LabelReporter::LabelReporter(const ReportOptions& options, const ReportedModel& model)
    : ModelReporter(options, model), threshold_(threshold_of(model.task)) {}

void LabelReporter::add(std::span<const std::int64_t> indices, const Fields& truths,
                        const Tensor& logits) {
  const std::int64_t classes = logits.dim(1);
  const std::span<const float> values = logits.values<float>();
  const auto wrong = std::ranges::find_if_not(values, [](float v) { return std::isfinite(v); });
  if (wrong != values.end()) {
    fail_not_finite(indices[static_cast<std::size_t>((wrong - values.begin()) / classes)]);
  }
  report_.indices.insert(report_.indices.end(), indices.begin(), indices.end());
  report_.logits.insert(report_.logits.end(), values.begin(), values.end());
  for (const float label : truths.at("labels").values<float>()) {
    report_.labels.push_back(label == 1);
  }
}

void LabelReporter::write(const std::filesystem::path& folder, Metrics&) {
  report_.figures = label_figures(report_.answers(), threshold_);
  write_label_report_json(folder / "report.json", report_, place());
  if (writes_tables()) write_label_report_tables(folder, report_, place());
  write_file_atomic(folder / "report.html", label_report_page(report_));
}

}  // namespace dtn::app
