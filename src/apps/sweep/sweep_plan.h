// Runs of a sweep and their states.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/sweeps/sweep_config.h"

namespace dtn {

enum class RunState {
  kToDo,
  kStarted,   // there is a checkpoint to resume from
  kFailed,    // the next sweep retries it
  kFinished,  // summary.json exists and does not report divergence
};

struct Failure {
  int code = 0;       // exit code, or 128 + the signal that killed it
  std::string error;  // last error message
};

struct SweepRun {
  std::size_t variant = 0;
  std::uint64_t seed = 0;
  std::string id;  // "variant:seed"
  std::filesystem::path folder;
  ExperimentConfig config;
  bool selected = true;
  RunState state = RunState::kToDo;
  std::int64_t step = 0;           // of the last checkpoint, or the final step
  std::optional<Failure> failure;  // of the last attempt
};

// Returns all runs in the order of variants and seeds, with their states. Runs that `only` leaves
// out are not selected. Throws ConfigError if `only` has an unknown name.
std::vector<SweepRun> plan_runs(const SweepConfig& sweep, const std::filesystem::path& output,
                                const std::vector<std::string>& only);

// Updates the state from the run's folder.
void update_state(SweepRun& run);

// Throws ConfigError if the config in the run's folder differs from the run's config. The error
// ends with `advice`; default: the advice for a run below --output.
void check_config(const SweepRun& run, const ConfigSchemas& schemas, std::string advice = "");

// Throws ConfigError if a folder holds a run with another config, or files that belong to no sweep.
void check_folders(const std::vector<SweepRun>& runs, const std::filesystem::path& output,
                   const ConfigSchemas& schemas);

// Reduces absolute paths in data.train, data.val and data.labels to their file names: on another
// machine the folders are elsewhere.
void drop_split_folders(DataConfig& data);

// Returns the config without the keys that affect neither the weights nor their evaluations, and
// without the location of the data, which moves between machines.
ExperimentConfig comparable(ExperimentConfig config);

// FNV-1a hash of the text of comparable().
std::string hash_of(const ExperimentConfig& config);

void write_failure(const SweepRun& run, const Failure& failure);
void clear_failure(const SweepRun& run);

inline constexpr const char* kLockFile = "sweep.lock";
inline constexpr const char* kRunLog = "train.log";

}  // namespace dtn
