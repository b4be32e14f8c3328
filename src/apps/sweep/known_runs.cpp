#include "apps/sweep/known_runs.h"

#include <fstream>

#include "apps/common/json_files.h"
#include "apps/sweep/feature_runs.h"
#include "apps/sweep/robustness_runs.h"
#include "apps/sweep/sample_runs.h"
#include "apps/sweep/sweep_report.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

fs::path folder_of(const SweepRun& run, const fs::path& results) {
  return results / run.id.substr(0, run.id.find(':')) / cat("seed-", run.seed);
}

// Returns the config without this machine's folders. Its other keys distinguish runs by their data.
std::string portable_config(ExperimentConfig config) {
  if (!config.data.root.empty()) config.data.root = ".";
  drop_split_folders(config.data);
  return to_yaml(config);
}

std::string evaluations_of(const fs::path& metrics) {
  std::ifstream file(metrics);
  std::string out;
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"split\"") != std::string::npos) out += line + "\n";
  }
  return out;
}

// Copies the results of the run's samples, and their picture, into its folder of the archive.
void keep_samples(const SweepConfig& sweep, const SweepRun& run, const fs::path& folder) {
  if (!sweep.samples.judge) return;
  const fs::path to = folder / "samples";
  const auto keep = [&](const fs::path& file) {
    fs::create_directories(to);
    write_file_atomic(to / file.filename(), text_of_file(file));
  };
  for (std::size_t i = 0; i < sweep.samples.guidance.size(); ++i) {
    if (sample_result(sweep, run, i)) keep(sample_file(sweep, run, i));
  }
  const fs::path grid = sample_folder(run) / kSampleGrid;
  if (fs::exists(grid)) keep(grid);
}

// Returns the metric of the last evaluation, for instance "top-1 (%) 82.04".
std::string last_metric(const SweepConfig& sweep, const fs::path& folder) {
  const std::vector<CurvePoint> curve = read_curve(sweep, folder / "metrics.jsonl");
  if (curve.empty()) return "no evaluation";
  return cat(figure_title(sweep.metric.figure), " ", metric_text(sweep, curve.back().metric));
}

// Removes the kept result in `folder`, with its evaluations, if its figures differ from those of
// the finished run: they belong to other weights.
void remove_other_result(const SweepConfig& sweep, const SweepRun& run, const fs::path& folder) {
  if (!fs::exists(folder / "summary.json")) return;
  if (evaluations_of(folder / "metrics.jsonl") == evaluations_of(run.folder / "metrics.jsonl")) {
    return;
  }
  log_info(cat(run.id, ": replacing the kept result in ", folder.string(), " (",
               last_metric(sweep, folder), ") by that of the finished run in ", run.folder.string(),
               " (", last_metric(sweep, run.folder), ")"));
  for (const std::string& suite : kSweepSuites) fs::remove(folder / (suite + ".json"));
  for (const char* part : {"features", "samples"}) fs::remove_all(folder / part);
  // Removed last: until then, the next call finds the difference again.
  fs::remove(folder / "summary.json");
}

void keep_suites(const SweepConfig& sweep, const SweepRun& run, const fs::path& folder,
                 const SuiteRoots& roots) {
  for (const std::string& suite : kSweepSuites) {
    if (!robustness_result(sweep, run, suite, roots)) continue;
    const fs::path file = folder / (suite + ".json");
    const std::string kept = text_of_file(file), text = text_of_file(suite_file(run, suite));
    if (kept == text) continue;
    if (!kept.empty()) log_info(cat(run.id, ": replacing the kept result ", file.string()));
    fs::create_directories(folder);
    write_file_atomic(file, text);
  }
}

// Returns equal texts for runs with equal weights on this machine.
std::string key_of(const SweepRun& run) {
  ExperimentConfig config = comparable(run.config);
  const DataConfig& data = run.config.data;
  config.data.root = data.root;
  config.data.train = data.train;
  config.data.val = data.val;
  config.data.labels = data.labels;
  return to_yaml(config);
}

}  // namespace

void adopt_kept_results(std::vector<SweepRun>& runs, const fs::path& results,
                        const ConfigSchemas& schemas) {
  if (results.empty()) return;
  for (SweepRun& run : runs) {
    const bool finished = run.state == RunState::kFinished;
    SweepRun kept = run;
    kept.folder = folder_of(run, results);
    update_state(kept);
    if (kept.state != RunState::kFinished) continue;
    check_config(kept, schemas,
                 cat("; delete ", kept.folder.string(),
                     finished ? " to keep the finished run in its place" : " to run it again",
                     ", or choose another folder with --results"));
    if (!finished) run = kept;
  }
}

void keep_result(const SweepConfig& sweep, const SweepRun& run, const fs::path& results,
                 const SuiteRoots& roots) {
  const fs::path folder = folder_of(run, results);
  if (folder == run.folder) return;
  remove_other_result(sweep, run, folder);
  keep_suites(sweep, run, folder, roots);
  for (const FeaturePoint& point : feature_points(sweep.features)) {
    if (!feature_result(sweep, run, point)) continue;
    const fs::path file = feature_file(sweep, run, point);
    fs::create_directories(folder / "features");
    write_file_atomic(folder / "features" / file.filename(), text_of_file(file));
  }
  keep_samples(sweep, run, folder);
  if (fs::exists(folder / "summary.json")) return;
  fs::create_directories(folder);
  write_file_atomic(folder / "config.yaml", portable_config(run.config));
  write_file_atomic(folder / "metrics.jsonl", evaluations_of(run.folder / "metrics.jsonl"));
  // Written last, because summary.json marks the run as finished.
  write_file_atomic(folder / "summary.json", text_of_file(run.folder / "summary.json"));
}

void SharedRuns::adopt(std::vector<SweepRun>& runs) const {
  for (SweepRun& run : runs) {
    if (run.state == RunState::kFinished) continue;
    const auto known = known_.find(key_of(run));
    if (known == known_.end()) continue;
    SweepRun other = run;
    other.folder = known->second.folder;
    update_state(other);
    if (other.state == RunState::kFinished) run = other;
  }
}

std::string SharedRuns::same_as(const SweepRun& run) const {
  const auto known = known_.find(key_of(run));
  return known == known_.end() ? "" : known->second.id;
}

void SharedRuns::add(const std::string& sweep, const std::vector<SweepRun>& runs) {
  for (const SweepRun& run : runs) {
    known_.try_emplace(key_of(run), Known{cat(sweep, "/", run.id), run.folder});
  }
}

}  // namespace dtn
