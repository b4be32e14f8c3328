// Everything that a training run works with, opened and initialized before the first step.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "data/feed/open_split.h"
#include "dtn/optim/schedule.h"
#include "train/attempts.h"
#include "train/learner.h"
#include "train/run_log.h"
#include "train/snapshot.h"
#include "train/trainer.h"

namespace dtn {

struct Run {
  ExperimentConfig config;
  std::filesystem::path output;
  Communicator& ranks;
  std::unique_ptr<Task> task;
  std::unique_ptr<OpenSplit> train, val;
  std::int64_t steps_per_epoch;
  LearningRate rate;
  Learner learner;
  RunProgress progress;
  std::optional<std::int64_t> resumed_at;  // a step
  std::unique_ptr<RunLog> log;
  std::string commit;                  // of the program
  std::unique_ptr<Attempts> attempts;  // on the first rank

  bool due(const Period& period, std::int64_t step) const {
    if (period.count == 0) return false;
    return step % (period.epochs ? period.count * steps_per_epoch : period.count) == 0;
  }
  // Returns true if norms.jsonl gets a line at this step.
  bool norms_due(std::int64_t step) const {
    const std::optional<Period>& every = config.train.log_norms;
    return every && (step == 0 || step == rate.total_steps() || due(*every, step));
  }
  bool evaluation_due(std::int64_t step) const {
    return due(config.train.eval_every, step) || step == rate.total_steps();
  }
};

// Opens data and model, loads the weights of a checkpoint or a file, copies the weights of the
// first rank to all ranks, and begins the log.
std::unique_ptr<Run> open_run(const ExperimentConfig& config, const TrainerOptions& options,
                              Communicator& ranks);

// Describes the device: "cpu, 2 threads", "2 processes with NVIDIA H200 each".
std::string device_text(const Run& run);

// Logs the program, the model, the length of the run and the device.
void describe(Run& run);

}  // namespace dtn
