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
  kStopped,  // by SIGTERM, SIGINT or SIGUSR1, after a checkpoint
};

struct TrainerOptions {
  std::filesystem::path output;
  Device device = kCpu;
  // Checkpoint to resume from; unset: the run starts from scratch.
  std::optional<std::filesystem::path> resume_from;
  // The ranks that train together; null: a single process. Only the first rank reads and writes the
  // run folder, and only it reads `resume_from`.
  Communicator* ranks = nullptr;
  // Commit of the program, for summary.json.
  std::string commit = "unknown";
  // Updates the report in a run folder after each evaluation. Exceptions are logged. Empty: no
  // report.
  std::function<void(const std::filesystem::path& run)> report = {};
  // Registries that the config chooses from.
  const Registries* registries = &standard_registries();
};

// Runs `config` to its end; docs/runs.md describes the run folder. The bits of the weights at every
// step depend only on the configuration, the data and the number of ranks. They do not depend on
// threads, workers or interruptions of the run. With another number of ranks the weights differ
// only by the rounding of sums. Throws ConfigError, DataError, DivergedError or Error.
RunStatus train(const ExperimentConfig& config, const TrainerOptions& options);

// Returns the checkpoint that `--resume` names: "auto" looks in `output`; a folder is a run or one
// of its checkpoints. Nothing if auto finds none.
std::optional<std::filesystem::path> resolve_resume(const std::string& resume,
                                                    const std::filesystem::path& output);

}  // namespace dtn
