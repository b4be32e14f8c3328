#include "apps/sweep/robustness_runs.h"

#include <algorithm>
#include <cmath>

#include "apps/common/json_files.h"
#include "apps/sweep/run_evaluation.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;  // keeps the order of the benchmark

void add_error(const std::string& name, const Json& entry, RobustnessResult& result) {
  const double error = number_at(entry, "error");
  if (std::isnan(error)) return;
  const double ce = number_at(entry, "ce");
  result.corruptions.push_back({name, error, std::isnan(ce) ? std::nullopt : std::optional(ce)});
}

// Adds the errors of the corruptions in the `group` of the report.
void add_errors(const Json& report, const char* group, RobustnessResult& result) {
  const auto corruptions = report.find(group);
  if (corruptions == report.end()) return;
  for (const auto& [name, entry] : corruptions->items()) add_error(name, entry, result);
}

// For small images, the corruptions outside the benchmark are part of the mean.
void add_errors(const Json& report, RobustnessResult& result) {
  if (const auto clean = report.find("clean"); clean != report.end()) {
    add_error("clean", *clean, result);
  }
  add_errors(report, "corruptions", result);
  if (result.small_images) add_errors(report, "extra", result);
}

RunEvaluation suite_evaluation(const SweepRun& run, const std::string& suite,
                               const fs::path& root) {
  std::vector<std::string> options = {"--suite", suite, "--save", suite_file(run, suite).string()};
  if (root == kOnTheFly) {
    options.emplace_back("--corrupt-on-the-fly");
  } else {
    options.insert(options.end(), {"--suite-root", root.string()});
  }
  const auto result = [&run, suite]() -> std::optional<std::string> {
    const auto found = robustness_result(run, suite);
    if (!found) return std::nullopt;
    return cat(suite_title(suite, found->small_images), " ", format("%.2f", found->figure));
  };
  return {.title = "on " + suite,
          .checkpoint = run.folder / "checkpoints" / "last",
          .log = run.folder / (suite + ".log"),
          .options = std::move(options),
          .result = result};
}

}  // namespace

std::string suite_title(const std::string& suite, bool small_images) {
  if (suite == "imagenet-r") return "ImageNet-R top-1 (%)";
  return small_images ? "error, corrupted (%)" : "mCE (%)";
}

fs::path suite_file(const SweepRun& run, const std::string& suite) {
  return run.folder / (suite + ".json");
}

std::optional<RobustnessResult> robustness_result(const SweepRun& run, const std::string& suite) {
  const Json report = json_of_file(suite_file(run, suite));
  if (!report.is_object()) return std::nullopt;
  RobustnessResult result;
  result.small_images = report.contains("no_mce");
  // An mCE always covers the whole benchmark; a mean error covers the corruptions evaluated so far.
  if (result.small_images && !report.value("complete", false)) return std::nullopt;
  result.figure = number_at(
      report, suite == "imagenet-r" ? "top1" : (result.small_images ? "mean_error" : "mce"));
  if (std::isnan(result.figure)) return std::nullopt;
  if (suite == "imagenet-c") add_errors(report, result);
  return result;
}

SweepStatus evaluate_on_suites(const SweepConfig& sweep, const SweepOptions& options,
                               const std::vector<SweepRun>& runs) {
  SweepStatus status = SweepStatus::kFinished;
  for (const std::string& suite : sweep.suites) {
    const auto root = options.suite_roots.find(suite);
    if (root == options.suite_roots.end()) {
      log_info(cat("skipping ", suite, ": name its folder with --suite-root ", suite, "=DIR"));
      continue;
    }
    for (const SweepRun& run : runs) {
      const bool wanted = run.selected && run.state == RunState::kFinished && has_weights(run) &&
                          !robustness_result(run, suite);
      if (!wanted) continue;
      const SweepStatus one =
          evaluate_run(sweep, options, run, suite_evaluation(run, suite, root->second));
      if (one == SweepStatus::kStopped) return one;
      if (one == SweepStatus::kFailed) status = one;
    }
  }
  return status;
}

}  // namespace dtn
