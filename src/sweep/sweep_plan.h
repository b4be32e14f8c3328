// The runs of a sweep and what became of each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/sweep.h"

namespace dtn {

enum class RunState {
  kToDo,
  kStarted,   // there is a checkpoint to go on from
  kFailed,    // it is tried again
  kFinished,  // there is a summary.json, and it does not say that the run diverged
};

struct Failure {
  int code = 0;       // exit code, or 128 + the signal that killed it
  std::string error;  // the last line about it
};

struct SweepRun {
  std::size_t variant = 0;
  std::uint64_t seed = 0;
  std::string id;  // "variant:seed"
  std::filesystem::path folder;
  ExperimentConfig config;
  bool selected = true;
  RunState state = RunState::kToDo;
  std::int64_t step = 0;           // of the last checkpoint, or of the end
  std::optional<Failure> failure;  // of the last attempt
};

// All runs, in the order of variants and seeds, with their states; those that `only` leaves out are
// not selected. Throws ConfigError when `only` names what is not there.
std::vector<SweepRun> plan_runs(const SweepConfig& sweep, const std::filesystem::path& output,
                                const std::vector<std::string>& only);

// Looks at the run's folder again.
void update_state(SweepRun& run);

// Throws ConfigError when the config in the run's folder is another than its own.
void check_config(const SweepRun& run, const ConfigSchemas& schemas);

// Throws ConfigError when a folder holds a run of another config, or files of no sweep.
void check_folders(const std::vector<SweepRun>& runs, const std::filesystem::path& output,
                   const ConfigSchemas& schemas);

// Leaves the file names of what data.train and data.val name by whole paths: another machine has the
// folders elsewhere.
void drop_split_folders(DataConfig& data);

// The config without what changes neither the weights nor what is known about them.
ExperimentConfig comparable(ExperimentConfig config);

void write_failure(const SweepRun& run, const Failure& failure);
void clear_failure(const SweepRun& run);

inline constexpr const char* kLockFile = "sweep.lock";
inline constexpr const char* kRunLog = "train.log";

}  // namespace dtn
