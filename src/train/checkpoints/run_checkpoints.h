// The checkpoints of a run while it trains. Only the first rank has this object.
#pragma once

#include <filesystem>
#include <optional>

#include "train/checkpoint.h"
#include "train/run.h"

namespace dtn {

class RunCheckpoints {
 public:
  // `resumed_from`: the checkpoint that the run resumes from, in its folder or elsewhere.
  RunCheckpoints(const Run& run, const std::optional<std::filesystem::path>& resumed_from);

  void save(const CheckpointData& data);
  // Confirms the newest checkpoint. Call after a finite loss was computed from its weights.
  void confirm();
  // Call when the run has finished.
  void finish() const { drop_confirmed_link(run_.output); }
  // Call when the run has diverged; see retreat_to_confirmed().
  Retreat retreat() const { return retreat_to_confirmed(run_.output, newest_); }

 private:
  std::optional<std::int64_t> best_step() const;

  const Run& run_;
  // Step of the newest checkpoint in the run folder that this run has saved or resumed from.
  std::optional<std::int64_t> newest_;
  bool confirmed_ = false;
};

}  // namespace dtn
