#include "apps/sweep/robustness_runs.h"

#include <algorithm>
#include <cmath>

#include "apps/common/json_files.h"
#include "apps/sweep/run_evaluation.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;  // keeps the order of the benchmark

// Returns an empty text if the entry is missing or no text.
std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

void add_error(const std::string& name, const Json& entry, RobustnessResult& result) {
  const double error = number_at(entry, "error");
  if (std::isnan(error)) return;
  const double ce = number_at(entry, "ce");
  result.corruptions.push_back({name, error, std::isnan(ce) ? std::nullopt : std::optional(ce)});
}

void add_images(const std::string& name, const Json& score, RobustnessResult& result) {
  if (std::string images = text_at(score, "images"); !images.empty()) {
    result.images[name] = std::move(images);
  }
}

// Adds the errors and the images of the corruptions in the `group` of the report.
void add_errors(const Json& report, const char* group, RobustnessResult& result) {
  const auto corruptions = report.find(group);
  if (corruptions == report.end()) return;
  for (const auto& [name, entry] : corruptions->items()) {
    add_error(name, entry, result);
    const auto severities = entry.find("severities");
    if (severities == entry.end()) continue;
    for (const auto& [severity, score] : severities->items()) {
      add_images(cat(name, "/", severity), score, result);
    }
  }
}

// For small images, the corruptions outside the benchmark are part of the mean.
void add_errors(const Json& report, RobustnessResult& result) {
  if (const auto clean = report.find("clean"); clean != report.end()) {
    add_error("clean", *clean, result);
  }
  add_errors(report, "corruptions", result);
  if (result.small_images) add_errors(report, "extra", result);
}

std::optional<RobustnessResult> result_of(const Json& report, const std::string& suite) {
  if (!report.is_object()) return std::nullopt;
  RobustnessResult result;
  result.small_images = report.contains("no_mce");
  // An mCE always covers the whole benchmark; a mean error covers the corruptions evaluated so far.
  if (result.small_images && !report.value("complete", false)) return std::nullopt;
  result.figure = number_at(
      report, suite == "imagenet-r" ? "top1" : (result.small_images ? "mean_error" : "mce"));
  if (std::isnan(result.figure)) return std::nullopt;
  if (suite == "imagenet-c") add_errors(report, result);
  if (suite == "imagenet-r") add_images("renditions", report.value("renditions", Json()), result);
  result.stand_in_frost = report.contains("without_frost");
  result.source = text_at(report.value("inputs", Json()), "source");
  return result;
}

// Returns what identifies the images without a path of this machine.
std::string source_of(const fs::path& root) { return root == kOnTheFly ? kOnTheFly : kFolder; }

// Returns what a result depends on, besides the config of the run.
Json inputs_json(const SweepConfig& sweep, const SweepRun& run, const std::string& source) {
  return {{"step", run.step}, {"average", sweep.ema}, {"source", source}};
}

// True if the report has the current inputs. A report of an earlier version has none, and counts.
bool has_inputs(const Json& report, const SweepConfig& sweep, const SweepRun& run,
                const std::string& suite, const SuiteRoots& roots) {
  const auto inputs = report.find("inputs");
  if (inputs == report.end()) return true;
  const auto root = roots.find(suite);
  const std::string source =
      root == roots.end() ? text_at(*inputs, "source") : source_of(root->second);
  return *inputs == inputs_json(sweep, run, source);
}

// Returns the file of an unfinished evaluation. Its name has the inputs: dtn-eval continues from
// the file, and keeps results of folders that are gone, also those of another source.
fs::path partial_file(const SweepConfig& sweep, const SweepRun& run, const std::string& suite,
                      const std::string& source) {
  return run.folder /
         cat(suite, "-", source, "-", run.step, sweep.ema ? "-averaged" : "", ".partial.json");
}

// Stores a finished report of dtn-eval, with its inputs, as the result of the run. Returns nothing
// if the report has no figure yet.
std::optional<RobustnessResult> store_result(const SweepConfig& sweep, const SweepRun& run,
                                             const std::string& suite, const std::string& source) {
  const fs::path partial = partial_file(sweep, run, suite, source);
  Json report = json_of_file(partial);
  if (!result_of(report, suite)) return std::nullopt;
  report["inputs"] = inputs_json(sweep, run, source);
  write_file_atomic(suite_file(run, suite), json_text(report, 2));
  std::error_code none;
  fs::remove(partial, none);
  return result_of(report, suite);
}

RunEvaluation suite_evaluation(const SweepConfig& sweep, const SweepRun& run,
                               const std::string& suite, const fs::path& root) {
  const std::string source = source_of(root);
  std::vector<std::string> options = {"--suite", suite, "--save",
                                      partial_file(sweep, run, suite, source).string()};
  if (root == kOnTheFly) {
    options.emplace_back("--corrupt-on-the-fly");
  } else {
    options.insert(options.end(), {"--suite-root", root.string()});
  }
  const auto result = [&sweep, &run, suite, source]() -> std::optional<std::string> {
    const auto found = store_result(sweep, run, suite, source);
    if (!found) return std::nullopt;
    return cat(suite_title(suite, found->small_images), " ", format("%.2f", found->figure));
  };
  return {.title = "on " + suite,
          .checkpoint = run.folder / "checkpoints" / "last",
          .log = run.folder / (suite + ".log"),
          .options = std::move(options),
          .result = result};
}

// Warns that the tables leave out a result of other inputs that cannot be computed again.
void warn_of_other_inputs(const SweepConfig& sweep, const SweepRun& run, const std::string& suite,
                          const SuiteRoots& roots) {
  const Json report = json_of_file(suite_file(run, suite));
  if (!result_of(report, suite) || has_inputs(report, sweep, run, suite, roots)) return;
  log_warn(cat(run.id, ": the tables leave out its result on ", suite,
               ", which was computed from other inputs: ", report["inputs"].dump(),
               "; this run has no weights here to compute it again"));
}

}  // namespace

std::string suite_title(const std::string& suite, bool small_images) {
  if (suite == "imagenet-r") return "ImageNet-R top-1 (%)";
  return small_images ? "error, corrupted (%)" : "mCE (%)";
}

fs::path suite_file(const SweepRun& run, const std::string& suite) {
  return run.folder / (suite + ".json");
}

std::optional<RobustnessResult> robustness_result(const SweepConfig& sweep, const SweepRun& run,
                                                  const std::string& suite,
                                                  const SuiteRoots& roots) {
  const Json report = json_of_file(suite_file(run, suite));
  if (!has_inputs(report, sweep, run, suite, roots)) return std::nullopt;
  return result_of(report, suite);
}

bool same_images(const RobustnessResult& a, const RobustnessResult& b) {
  if (!a.images.empty() && !b.images.empty()) return a.images == b.images;
  return a.source == b.source;
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
                          !robustness_result(sweep, run, suite, options.suite_roots);
      if (!wanted) continue;
      if (!has_weights(run)) {
        warn_of_other_inputs(sweep, run, suite, options.suite_roots);
        continue;
      }
      const SweepStatus one =
          evaluate_run(sweep, options, run, suite_evaluation(sweep, run, suite, root->second));
      if (one == SweepStatus::kStopped) return one;
      if (one == SweepStatus::kFailed) status = one;
    }
  }
  return status;
}

}  // namespace dtn
