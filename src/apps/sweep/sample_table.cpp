// The table of a sweep's samples, with the references of their judge.
#include <algorithm>

#include "apps/sweep/sweep_report.h"
#include "config/codec.h"
#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr int kAgreementDigits = 2, kDistanceDigits = 1;

using Reference = std::optional<SampleScore> SampleResult::*;

std::vector<std::string> reference_row(const SweepReport& report, const std::string& name,
                                       Reference reference) {
  std::vector<std::string> row = {name};
  for (std::size_t i = 0; i < report.sweep.samples.guidance.size(); ++i) {
    const SampleResult* result = any_sample_result(report, i);
    const std::optional<SampleScore> score = result ? result->*reference : std::nullopt;
    row.push_back(score ? format("%.*f", kAgreementDigits, score->agreement) : "-");
    row.push_back(score ? format("%.*f", kDistanceDigits, score->distance) : "-");
  }
  return row;
}

// Returns the result of any run, or null.
const SampleResult* any_sample_result(const SweepReport& report) {
  for (std::size_t i = 0; i < report.sweep.samples.guidance.size(); ++i) {
    if (const SampleResult* result = any_sample_result(report, i)) return result;
  }
  return nullptr;
}

}  // namespace

const SampleResult* any_sample_result(const SweepReport& report, std::size_t i) {
  for (const VariantResult& r : report.results) {
    for (const RunResult& run : r.runs) {
      if (i < run.samples.size() && run.samples[i]) return &*run.samples[i];
    }
  }
  return nullptr;
}

TableText sample_table(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  if (!sweep.samples.judge) return {};
  TableText table{{"images"}, {}};
  for (const double scale : sweep.samples.guidance) {
    const std::string guidance = cat(", guidance ", config::number_text(scale));
    table.columns.push_back("agreement (%)" + guidance);
    table.columns.push_back("Frechet distance" + guidance);
  }
  table.rows = {reference_row(report, "test images", &SampleResult::test),
                reference_row(report, "noise", &SampleResult::noise),
                reference_row(report, "untrained model", &SampleResult::untrained)};
  for (const VariantResult& r : report.results) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {sweep.variants[r.variant].label};
    for (const SampleStatistics& samples : r.samples) {
      row.push_back(mean_text_of(samples.agreement, kAgreementDigits, r.runs.size()));
      row.push_back(mean_text_of(samples.distance, kDistanceDigits, r.runs.size()));
    }
  }
  return table;
}

std::vector<std::string> sample_notes(const SweepReport& report) {
  const SweepSamples& s = report.sweep.samples;
  const SampleResult* result = any_sample_result(report);
  std::vector<std::string> notes = {
      cat("Agreement: share of ", counted(s.count, "samples"),
          " that the judge, a classifier, sees as the class that was asked for; of test images "
          "its accuracy. ",
          s.sampler == "ddpm" ? "DDPM" : "DDIM", ", ", counted(s.steps, "steps"), "."),
      cat("Frechet distance: between the judge's ",
          result ? cat(result->features, " ") : std::string(), "features of the images and of ",
          counted(result ? result->training_images : s.references, "training images"),
          ". It depends on the judge and on the number of images: compare it only within this "
          "table.")};
  return notes;
}

std::string sample_markdown(const SweepReport& report) {
  const TableText table = sample_table(report);
  if (table.columns.empty()) return "";
  std::string text = cat("## ", kSampleTitle, "\n\n", markdown_table(table), "\n",
                         markdown_list(sample_notes(report)));
  for (const auto& [variant, file] : report.grids) {
    text += cat("\n![samples of ", report.sweep.variants[variant].label, "](", file, ")\n");
  }
  return text;
}

}  // namespace dtn
