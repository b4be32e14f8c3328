// Formats a suite's report for people.
#include <algorithm>

#include "apps/robustness/robustness_results.h"
#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr int kNameWidth = 18;

std::string percent(const std::optional<double>& value, int width) {
  return value ? format("%*.2f", width, *value) : format("%*s", width, "-");
}

std::string row(const RobustnessReport& report, const Corruption& corruption,
                const SeverityErrors& errors) {
  const bool stand_in = is_frost(corruption) && frost_is_stand_in(report);
  std::string line = format("%-*s", kNameWidth, stand_in ? kStandInFrost : corruption.name);
  for (const std::optional<double>& error : errors) line += percent(error, 8);
  line += percent(mean_error(errors), 9);
  if (report.small_images) {
    line += percent(relative_error(mean_error(errors), find_score(report, "clean")), 12);
  } else if (in_benchmark(corruption)) {
    line += percent(corruption_error(corruption, errors), 9);
  }
  return line + "\n";
}

std::string corruption_table(const RobustnessReport& report) {
  const std::vector<SeverityErrors> errors = errors_of(report);
  std::string text = "top-1 error (%) by severity\n" + format("%-*s", kNameWidth, "");
  for (std::size_t s = 1; s <= kSeverities; ++s) text += format("%8zu", s);
  text += report.small_images ? format("%9s%12s\n", "mean", "over clean")
                              : format("%9s%9s\n", "mean", "CE");
  bool headed = false;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const bool extra = i >= kBenchmarkCorruptions;
    const bool empty = std::ranges::none_of(errors[i], [](const auto& e) { return e.has_value(); });
    if (empty && (extra || report.small_images)) continue;
    if (extra && !headed && !report.small_images) text += "outside the benchmark\n";
    headed = headed || extra;
    text += row(report, corruptions()[i], errors[i]);
  }
  return text;
}

std::string summary_line(const CorruptionSummary& summary) {
  if (summary.corruptions == 0) {
    return "no CE: no corruption of the benchmark has all 5 severities\n";
  }
  const std::string error = format("mean error %.2f %%", *summary.mean_error);
  if (summary.mce()) return format("mCE %.2f %%  ", *summary.mce()) + error + "\n";
  return format(
             "mean CE of %zu of %zu corruptions %.2f %% (not the mCE, which needs all 75 folders) "
             " ",
             summary.corruptions, kBenchmarkCorruptions, *summary.mean_ce) +
         error + "\n";
}

std::string small_summary(const RobustnessReport& report) {
  const CorruptionSummary summary = summary_of(report);
  if (!summary.mean_error) return "no mean error: no corruption has all 5 severities\n";
  std::string line =
      format("mean error of %s %.2f %%", counted(summary.corruptions, "corruptions").c_str(),
             *summary.mean_error);
  const auto over = relative_error(summary.mean_error, find_score(report, "clean"));
  if (over) line += format(", %.2f above the error on clean images", *over);
  return line + " (" + kNoMce + ")\n";
}

std::string without_frost(const RobustnessReport& report) {
  const CorruptionSummary others = summary_without_frost(report);
  std::string line = cat(kStandInFrost, ": not comparable with published values");
  if (others.corruptions > 0) {
    line += format("; the other %zu: mean CE %.2f %%  mean error %.2f %%", others.corruptions,
                   *others.mean_ce, *others.mean_error);
  }
  return line + "\n";
}

std::string score_line(const std::string& title, const Accuracy& r, std::int64_t bad_images) {
  std::string line = format("top-1 %.2f %%  top-5 %.2f %%  loss %.4f  ", r.top1, r.top5, r.loss);
  line += cat(title, ", ", counted(r.count, "images"));
  if (bad_images > 0) line += cat(" and ", counted(bad_images, "damaged images"));
  return line + "\n";
}

}  // namespace

std::string to_text(const RobustnessReport& report) {
  std::string text;
  if (report.suite == Suite::kImageNetC) {
    text = corruption_table(report) +
           (report.small_images ? small_summary(report) : summary_line(summary_of(report)));
    if (frost_is_stand_in(report)) text += without_frost(report);
  }
  const Accuracy all = overall(report);
  std::int64_t bad_images = 0;
  for (const auto& [name, score] : report.scores) {
    if (name != "clean") bad_images += score.bad_images;
  }
  const bool corrupted = report.suite == Suite::kImageNetC;
  if (all.count > 0) {
    text += score_line(
        corrupted ? "whole benchmark" : cat("ImageNet-R, ", report.num_classes, " classes"), all,
        bad_images);
  }
  if (const RobustnessScore* clean = find_score(report, "clean")) {
    text += score_line(cat("clean, ", report.num_classes, " classes"), clean->result,
                       clean->bad_images);
  }
  if (all.seconds > 0) {
    text += format("%.1f images/s\n", static_cast<double>(all.count) / all.seconds);
  }
  return text;
}

}  // namespace dtn
