// Everything that a training run works with, opened and filled before its first step.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "data/feed/open_split.h"
#include "dtn/optim/schedule.h"
#include "train/learner.h"
#include "train/legs.h"
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
  std::string commit;          // of the program
  std::unique_ptr<Legs> legs;  // of the first rank

  bool due(const Period& period, std::int64_t step) const {
    if (period.count == 0) return false;
    return step % (period.epochs ? period.count * steps_per_epoch : period.count) == 0;
  }
  // Whether norms.jsonl gets a line then.
  bool norms_due(std::int64_t step) const {
    const std::optional<Period>& every = config.train.log_norms;
    return every && (step == 0 || step == rate.total_steps() || due(*every, step));
  }
  bool evaluation_due(std::int64_t step) const {
    return due(config.train.eval_every, step) || step == rate.total_steps();
  }
};

// Opens data and model, takes over the weights of a checkpoint or a file, gives every rank those of
// the first, and begins the log.
std::unique_ptr<Run> open_run(const ExperimentConfig& config, const TrainerOptions& options,
                              Communicator& ranks);

// What computes: "cpu, 2 threads", "2 processes with NVIDIA H200 each".
std::string device_text(const Run& run);

// What is trained on what, for people.
void describe(Run& run);

}  // namespace dtn
