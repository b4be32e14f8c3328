// The checkpoints of a run while it trains. The first rank has one.
#pragma once

#include <filesystem>
#include <optional>

#include "train/checkpoint.h"
#include "train/run.h"

namespace dtn {

class RunCheckpoints {
 public:
  // `resumed_from`: the checkpoint the run goes on from, in its folder or elsewhere.
  RunCheckpoints(const Run& run, const std::optional<std::filesystem::path>& resumed_from);

  void save(const CheckpointData& data);
  // Confirms the newest checkpoint: a loss that was computed after it is finite.
  void confirm();
  // The run has finished.
  void finish() const { drop_confirmed_link(run_.output); }
  // The run has diverged; see retreat_to_confirmed().
  Retreat retreat() const { return retreat_to_confirmed(run_.output, newest_); }

 private:
  std::optional<std::int64_t> best_step() const;

  const Run& run_;
  // Saved by this run or resumed from, in its folder.
  std::optional<std::int64_t> newest_;
  bool confirmed_ = false;
};

}  // namespace dtn
