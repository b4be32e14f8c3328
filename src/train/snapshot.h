// Between a run in memory, a checkpoint on disk and the other ranks.
#pragma once

#include "dtn/config/schemas.h"
#include "train/checkpoint.h"
#include "train/learner.h"
#include "train/state_dict.h"

namespace dtn {

// Where a run stands, beside its tensors.
struct RunProgress {
  std::int64_t step = 0;             // finished optimizer steps
  std::int64_t evaluated_step = -1;  // the last one that was evaluated
  std::int64_t best_step = -1;       // none yet
  double best = -1;                  // the primary figure there
  std::int64_t bad_steps = 0;        // non-finite ones in a row
  std::int64_t steps_per_epoch = 0;  // with step, the place in the data
  std::int64_t finite_step = -1;     // the last one whose evaluation had a finite loss
};

// Handles to the live tensors, not copies: write them before the next step.
CheckpointData take_snapshot(const ExperimentConfig& config, Learner& learner,
                             RunProgress& progress);

// Restores weights, average, moments and progress. Throws ConfigError when the checkpoint belongs
// to another model or optimizer; warns about other keys that differ.
void restore_snapshot(const CheckpointData& data, const ExperimentConfig& config,
                      const ConfigSchemas& schemas, Learner& learner, RunProgress& progress);

// Gives every rank the first one's weights, average, moments and progress, and makes sure that the
// weights have arrived.
// `resumed_at` is the first one's, too.
void share_run(Learner& learner, RunProgress& progress, std::optional<std::int64_t>& resumed_at,
               Communicator& ranks);

}  // namespace dtn
