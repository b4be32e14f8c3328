// Conversion between a run in memory and a checkpoint on disk, and its copy to the other ranks.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "dtn/config/schemas.h"
#include "train/checkpoint.h"
#include "train/learner.h"
#include "train/state_dict.h"

namespace dtn {

// Progress of a run, without its tensors.
struct RunProgress {
  std::int64_t step = 0;             // finished optimizer steps
  std::int64_t evaluated_step = -1;  // last step that was evaluated; -1: none
  std::int64_t best_step = -1;       // -1: none yet
  double best = -1;                  // primary figure at best_step
  std::int64_t bad_steps = 0;        // non-finite steps in a row
  std::int64_t steps_per_epoch = 0;  // gives the position in the data, together with step
  std::int64_t finite_step = -1;     // last step whose evaluation had a finite loss; -1: none
  // Thresholds of the last evaluation of the weights and of their average; 0: none yet. Only if
  // Task::finds_threshold().
  double threshold = 0, ema_threshold = 0;
  // For train.early_stop: evaluations in a row without a better figure, and the best one.
  std::int64_t stale_evaluations = 0;
  double stop_best = std::numeric_limits<double>::quiet_NaN();
  // Step at which this attempt resumed; not in checkpoints.
  std::optional<std::int64_t> resumed_at = {};

  // Goes back to before the non-finite steps, which have changed only these counts. An evaluation
  // after them had the same weights.
  void forget_bad_steps();
};

// Returns handles to the live tensors, not copies: write them before the next step.
CheckpointData take_snapshot(const ExperimentConfig& config, Learner& learner,
                             RunProgress& progress);

// Restores weights, average, moments and progress. Throws ConfigError if the checkpoint belongs to
// another model or optimizer. Warns about other keys that differ.
void restore_snapshot(const CheckpointData& data, const ExperimentConfig& config,
                      const ConfigSchemas& schemas, Learner& learner, RunProgress& progress);

// Copies the weights, average, moments and progress of the first rank to every rank, and checks
// that the weights have arrived.
void share_run(Learner& learner, RunProgress& progress, Communicator& ranks);

}  // namespace dtn
