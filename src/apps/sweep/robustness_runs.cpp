#include "apps/sweep/robustness_runs.h"

#include <algorithm>
#include <cmath>

#include "apps/common/json_files.h"
#include "apps/sweep/child_wait.h"
#include "core/exit_code.h"
#include "core/format.h"
#include "core/stop_signal.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/child_process.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;  // keeps the order of the benchmark

std::vector<std::string> command_of(const SweepConfig& sweep, const SweepOptions& options,
                                    const SweepRun& run, const std::string& suite,
                                    const fs::path& root) {
  std::vector<std::string> command = options.evaluator;
  const fs::path checkpoint = run.folder / "checkpoints" / "last";
  for (const std::string& word :
       {std::string("--checkpoint"), checkpoint.string(), std::string("--suite"), suite,
        std::string("--save"), suite_file(run, suite).string(), std::string("--device"),
        options.device, std::string("--threads"), std::to_string(options.threads * options.jobs)}) {
    command.push_back(word);
  }
  if (root == kOnTheFly) {
    command.emplace_back("--corrupt-on-the-fly");
  } else {
    command.insert(command.end(), {"--suite-root", root.string()});
  }
  if (sweep.ema) command.emplace_back("--ema");
  return command;
}

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

SweepStatus evaluate_one(const SweepConfig& sweep, const SweepOptions& options, const SweepRun& run,
                         const std::string& suite, const fs::path& root) {
  const fs::path log = run.folder / (suite + ".log");
  log_info(cat(run.id, ": evaluating on ", suite, "; log in ", log.string()));
  ChildProcess child(command_of(sweep, options, run, suite, root), log);
  const ChildExit exit = wait_or_stop(child);
  if (exit.code == kExitStopped || (stop_requested() && exit.signal != 0)) {
    return SweepStatus::kStopped;
  }
  const auto result = robustness_result(run, suite);
  if (exit.code == 0 && exit.signal == 0 && result) {
    log_info(cat(run.id, ": ", suite_title(suite, result->small_images), " ",
                 format("%.2f", result->figure)));
    return SweepStatus::kFinished;
  }
  log_warn(cat(run.id, ": the evaluation on ", suite, " failed with ",
               exit.signal ? cat("signal ", exit.signal) : cat("exit code ", exit.code), "; see ",
               log.string(), "; run the same command again to retry"));
  return SweepStatus::kFailed;
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
      const bool wanted = run.selected && run.state == RunState::kFinished &&
                          fs::exists(run.folder / "checkpoints" / "last") &&
                          !robustness_result(run, suite);
      if (!wanted) continue;
      const SweepStatus one = evaluate_one(sweep, options, run, suite, root->second);
      if (one == SweepStatus::kStopped) return one;
      if (one == SweepStatus::kFailed) status = one;
    }
  }
  return status;
}

}  // namespace dtn
