#include "apps/eval/class_reporter.h"

#include "apps/eval/class_report_files.h"
#include "core/format.h"
#include "io/atomic_file.h"

namespace dtn::app {

void ClassReporter::add(std::span<const std::int64_t> indices, const Fields& truths,
                        const Tensor& logits) {
  const auto* labels = truths.at("label").data<std::int64_t>();
  const auto classes = static_cast<std::size_t>(logits.dim(1));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::span<const float> row(logits.data<float>() + i * classes, classes);
    const auto sample = classified(indices[i], row, labels[i]);
    if (!sample) fail_not_finite(indices[i]);
    report_.samples.push_back(*sample);
  }
}

void ClassReporter::write(const std::filesystem::path& folder, Metrics& metrics) {
  report_.figures = figures_of(report_.samples, std::ssize(report_.classes));
  write_report_json(folder / "report.json", report_, place());
  if (writes_tables()) write_report_tables(folder, report_, place());
  write_file_atomic(folder / "report.html", class_report_page(report_));
  const ClassificationFigures& figures = report_.figures;
  metrics.values.push_back({"macro_f1", figures.macro_f1});
  metrics.values.push_back({"ece", figures.ece});
  metrics.text += format("  macro F1 %.4f  ECE %.4f", figures.macro_f1, figures.ece);
}

}  // namespace dtn::app
