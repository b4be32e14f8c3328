// A suite's report for people.
#include <algorithm>

#include "core/format.h"
#include "dtn/core/check.h"
#include "suite/suite_results.h"

namespace dtn {
namespace {

constexpr int kNameWidth = 18;

std::string percent(const std::optional<double>& value, int width) {
  return value ? format("%*.2f", width, *value) : format("%*s", width, "-");
}

std::string row(const Corruption& corruption, const SeverityErrors& errors) {
  std::string line = format("%-*s", kNameWidth, corruption.name);
  for (const std::optional<double>& error : errors) line += percent(error, 8);
  line += percent(mean_error(errors), 9);
  if (corruption.alexnet_error != 0) line += percent(corruption_error(corruption, errors), 9);
  return line + "\n";
}

std::string corruption_table(const std::vector<SeverityErrors>& errors) {
  std::string text = "top-1 error (%) by severity\n" + format("%-*s", kNameWidth, "");
  for (std::size_t s = 1; s <= kSeverities; ++s) text += format("%8zu", s);
  text += format("%9s%9s\n", "mean", "CE");
  bool headed = false;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const bool extra = i >= kBenchmarkCorruptions;
    const bool empty = std::ranges::none_of(errors[i], [](const auto& e) { return e.has_value(); });
    if (extra && empty) continue;
    if (extra && !headed) text += "outside the benchmark\n";
    headed = headed || extra;
    text += row(corruptions()[i], errors[i]);
  }
  return text;
}

std::string summary_line(const CorruptionSummary& summary) {
  if (summary.corruptions == 0) {
    return "no CE: not one corruption of the benchmark has all 5 severities\n";
  }
  const std::string error = format("mean error %.2f %%", *summary.mean_error);
  if (summary.mce()) return format("mCE %.2f %%  ", *summary.mce()) + error + "\n";
  return format(
             "mean CE of %zu of %zu corruptions %.2f %% (not the mCE: that is of all 75 folders)  ",
             summary.corruptions, kBenchmarkCorruptions, *summary.mean_ce) +
         error + "\n";
}

std::string score_line(const std::string& title, const Accuracy& r, std::int64_t bad_images) {
  std::string line = format("top-1 %.2f %%  top-5 %.2f %%  loss %.4f  ", r.top1, r.top5, r.loss);
  line += cat(title, ", ", r.count, " images");
  if (bad_images > 0) line += cat(" and ", bad_images, " damaged ones");
  return line + "\n";
}

}  // namespace

std::string to_text(const SuiteReport& report) {
  std::string text;
  if (report.suite == Suite::kImageNetC) {
    const std::vector<SeverityErrors> errors = errors_of(report);
    text = corruption_table(errors) + summary_line(summarize(errors));
  }
  const Accuracy all = overall(report);
  std::int64_t bad_images = 0;
  for (const auto& [name, score] : report.scores) {
    if (name != "clean") bad_images += score.bad_images;
  }
  const bool corrupted = report.suite == Suite::kImageNetC;
  if (all.count > 0) {
    text += score_line(
        corrupted ? "all of the benchmark" : cat("ImageNet-R, ", report.num_classes, " classes"),
        all, bad_images);
  }
  if (const SuiteScore* clean = find_score(report, "clean")) {
    text += score_line(cat("clean, ", report.num_classes, " classes"), clean->result,
                       clean->bad_images);
  }
  if (all.seconds > 0) {
    text += format("%.1f images/s\n", static_cast<double>(all.count) / all.seconds);
  }
  return text;
}

}  // namespace dtn
