// The checkpoints of a run while it trains.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/record/run_recorder.h"

namespace dtn {

// Every rank has this object and makes the same calls, but retreat(). Only the first rank writes.
class RunCheckpoints {
 public:
  // The arguments, except `class_names`, must outlive the object.
  RunCheckpoints(const ExperimentConfig& config, const TrainerOptions& options,
                 std::vector<std::string> class_names, Learner& learner, RunProgress& progress,
                 RunRecorder& recorder, const RunPeriods& periods, Communicator& ranks);

  // Writes a checkpoint, after a check that all ranks have equal weights.
  void save();
  // Confirms the newest checkpoint. Call after a finite loss was computed from its weights.
  void confirm();
  // Call when the run has finished.
  void finish() const {
    if (ranks_.is_root()) drop_confirmed_link(folder_);
  }
  // Call on the first rank when the run has diverged; see retreat_to_confirmed().
  Retreat retreat() const { return retreat_to_confirmed(folder_, newest_); }

 private:
  std::optional<std::int64_t> best_step() const;

  const ExperimentConfig& config_;
  const std::filesystem::path& folder_;  // of the run
  std::vector<std::string> class_names_;
  PermanentSteps permanent_;
  Learner& learner_;
  RunProgress& progress_;
  RunRecorder& recorder_;
  Communicator& ranks_;
  // On the first rank: step of the newest checkpoint in the run folder that this run has saved or
  // resumed from.
  std::optional<std::int64_t> newest_;
  bool confirmed_ = false;
};

}  // namespace dtn
