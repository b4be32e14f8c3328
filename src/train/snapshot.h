// Between a run in memory and a checkpoint on disk.
#pragma once

#include "train/checkpoint.h"
#include "train/learner.h"

namespace dtn {

// Where a run stands, beside its tensors.
struct RunProgress {
  std::int64_t step = 0;             // finished optimizer steps
  std::int64_t evaluated_step = -1;  // the last one that was evaluated
  std::int64_t best_step = -1;
  double best_top1 = -1;
  int bad_steps = 0;                 // non-finite ones in a row
  std::int64_t steps_per_epoch = 0;  // with step, the place in the data
};

// Handles to the live tensors, not copies: write them before the next step.
CheckpointData take_snapshot(const ExperimentConfig& config, Learner& learner,
                             const RunProgress& progress);

// Restores weights, average, moments and progress. Throws ConfigError when the checkpoint belongs
// to another model or optimizer; warns about other keys that differ.
RunProgress restore_snapshot(const CheckpointData& data, const ExperimentConfig& config,
                             Learner& learner);

}  // namespace dtn
