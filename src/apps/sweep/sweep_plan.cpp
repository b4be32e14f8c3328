#include "apps/sweep/sweep_plan.h"

#include <algorithm>
#include <charconv>

#include "apps/common/json_files.h"
#include "config/document.h"
#include "core/format.h"
#include "dtn/config/load.h"
#include "dtn/tasks/registries.h"
#include "io/atomic_file.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFailureFile = "failure.json";

// Returns 123 for step-00000123.
std::int64_t step_of(const std::string& folder) {
  const std::string prefix = "step-";
  std::int64_t step = 0;
  if (!folder.starts_with(prefix)) return 0;
  std::from_chars(folder.data() + prefix.size(), folder.data() + folder.size(), step);
  return step;
}

// Returns the step from which the run resumes: that of the checkpoint `last`, or, like dtn-train,
// of the newest checkpoint if the run was killed before it set `last`.
std::int64_t checkpointed_step(const fs::path& run) {
  std::error_code error;
  const fs::path last = fs::read_symlink(run / "checkpoints" / "last", error);
  if (!error) return step_of(last.filename());
  std::int64_t newest = 0;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", error)) {
    newest = std::max(newest, step_of(entry.path().filename()));
  }
  return newest;
}

void select(std::vector<SweepRun>& runs, const SweepConfig& sweep,
            const std::vector<std::string>& only) {
  if (only.empty()) return;
  for (SweepRun& run : runs) run.selected = false;
  for (const std::string& name : only) {
    bool found = false;
    for (SweepRun& run : runs) {
      if (run.id != name && sweep.variants[run.variant].name != name) continue;
      found = run.selected = true;
    }
    if (found) continue;
    throw ConfigError(cat("--only ", name, ": no such variant or run; the sweep has ",
                          config::join(sweep.variants, ", ", &SweepVariant::name), ", ",
                          config::join(runs, ", ", &SweepRun::id)));
  }
}

}  // namespace

void drop_split_folders(DataConfig& data) {
  for (std::optional<std::string>* split : {&data.train, &data.val, &data.labels}) {
    if (*split && fs::path(**split).is_absolute()) *split = fs::path(**split).filename().string();
  }
}

ExperimentConfig comparable(ExperimentConfig config) {
  config.name.clear();
  config.data.workers = 0;  // not reset(): tables keep a hash of the text
  config.data.root.clear();
  drop_split_folders(config.data);
  config.train.log_every = {};
  config.train.log_norms.reset();
  config.train.log_histograms.reset();
  config.train.checkpoint_every = {};
  config.train.keep = 0;
  config.train.keep_every.reset();
  return config;
}

std::string hash_of(const ExperimentConfig& config) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char c : to_yaml(comparable(config))) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return format("%016llx", static_cast<unsigned long long>(hash));
}

std::vector<SweepRun> plan_runs(const SweepConfig& sweep, const fs::path& output,
                                const std::vector<std::string>& only) {
  std::vector<SweepRun> runs;
  for (std::size_t i = 0; i < sweep.variants.size(); ++i) {
    const SweepVariant& variant = sweep.variants[i];
    for (std::uint64_t seed : variant.seeds) {
      SweepRun run;
      run.variant = i;
      run.seed = seed;
      run.id = cat(variant.name, ":", seed);
      run.folder = output / variant.name / cat("seed-", seed);
      run.config = variant.config;
      run.config.seed = seed;
      update_state(run);
      runs.push_back(std::move(run));
    }
  }
  select(runs, sweep, only);
  return runs;
}

void update_state(SweepRun& run) {
  run.failure.reset();
  auto summary = json_of_file(run.folder / "summary.json");
  // A diverged run has a summary too; it resumes from its last checkpoint.
  const bool over = summary.is_object() && summary["diverged"] != true;
  if (over && summary.contains("steps") && summary["steps"].is_number_integer()) {
    run.state = RunState::kFinished;
    run.step = summary["steps"].get<std::int64_t>();
    return;
  }
  run.step = checkpointed_step(run.folder);
  run.state = run.step > 0 ? RunState::kStarted : RunState::kToDo;
  auto failure = json_of_file(run.folder / kFailureFile);
  if (failure.is_object()) {
    run.state = RunState::kFailed;
    run.failure = Failure{1, ""};
    if (failure["code"].is_number_integer()) run.failure->code = failure["code"].get<int>();
    if (failure["error"].is_string()) run.failure->error = failure["error"].get<std::string>();
  }
}

void check_config(const SweepRun& run, const ConfigSchemas& schemas, std::string advice) {
  const fs::path file = run.folder / "config.yaml";
  if (advice.empty()) {
    advice = cat("; delete ", run.folder.string(),
                 " to run it again, or choose another folder with --output");
  }
  ExperimentConfig was;
  try {
    was = load_experiment(file.string(), {}, schemas);
  } catch (const ConfigError& e) {
    throw ConfigError(cat(run.id, ": cannot read its config: ", e.what(), advice));
  }
  const auto differences = config_differences(comparable(was), comparable(run.config));
  if (differences.empty()) return;
  constexpr std::size_t kMax = 5;
  std::string list;
  for (std::size_t i = 0; i < std::min(kMax, differences.size()); ++i) {
    list += (i ? "; " : "") + differences[i];
  }
  if (differences.size() > kMax) list += cat("; and ", differences.size() - kMax, " more");
  throw ConfigError(cat(run.id, " was run with another config: ", list, advice));
}

void check_folders(const std::vector<SweepRun>& runs, const fs::path& output,
                   const ConfigSchemas& schemas) {
  if (!fs::exists(output)) return;
  if (!fs::is_directory(output)) {
    throw ConfigError(cat("--output ", output.string(), ": is a file, not a folder"));
  }
  if (!fs::exists(output / kLockFile) && !fs::is_empty(output)) {
    throw ConfigError(
        cat("--output ", output.string(), ": contains files but no sweep; choose another folder"));
  }
  for (const SweepRun& run : runs) {
    // A run that died before its first checkpoint starts from scratch anyway.
    if (run.state == RunState::kFinished || run.step > 0) check_config(run, schemas);
  }
}

void write_failure(const SweepRun& run, const Failure& failure) {
  write_file_atomic(run.folder / kFailureFile,
                    json_text({{"code", failure.code}, {"error", failure.error}}, 2));
}

void clear_failure(const SweepRun& run) {
  std::error_code error;
  fs::remove(run.folder / kFailureFile, error);
}

}  // namespace dtn
