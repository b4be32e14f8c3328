// A whole training run: epochs, evaluation, checkpoints, logs, resume.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "dtn/config/train_config.h"
#include "dtn/dist/communicator.h"
#include "dtn/tasks/registries.h"

namespace dtn {

enum class RunStatus {
  kFinished,
  kStopped,  // by SIGTERM or SIGINT, after a checkpoint
};

struct TrainerOptions {
  std::filesystem::path output;
  Device device = kCpu;
  // The checkpoint to go on from, or nothing to start afresh.
  std::optional<std::filesystem::path> resume_from;
  // That train together; null: alone. The first alone reads and writes the run folder, and
  // `resume_from` is its.
  Communicator* ranks = nullptr;
  // What summary.json says the program was built from.
  std::string commit = "unknown";
  // Renews the report in a run folder, after each evaluation; what it throws is logged. Empty: there
  // is none.
  std::function<void(const std::filesystem::path& run)> report = {};
  // What the config chooses from.
  const Registries* registries = &standard_registries();
};

// Runs `config` to its end (see "A run folder" in README.md). The bits of the weights at every step
// depend on the configuration, the data and the number of ranks alone: not on threads, workers, or
// on where the run was stopped and resumed; with another number of ranks they are the same but for
// the rounding of sums. Throws ConfigError, DataError, DivergedError or Error.
RunStatus train(const ExperimentConfig& config, const TrainerOptions& options);

// The checkpoint that `--resume` means: "auto" looks in `output`; a folder is a run or one of its
// checkpoints. Nothing when auto finds none.
std::optional<std::filesystem::path> resolve_resume(const std::string& resume,
                                                    const std::filesystem::path& output);

}  // namespace dtn
