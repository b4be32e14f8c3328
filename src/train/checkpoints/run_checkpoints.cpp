#include "train/checkpoints/run_checkpoints.h"

#include <system_error>

namespace dtn {
namespace fs = std::filesystem;

RunCheckpoints::RunCheckpoints(const Run& run, const std::optional<fs::path>& resumed_from)
    : run_(run) {
  if (!resumed_from || !run.resumed_at) return;
  std::error_code absent;
  const fs::path own = checkpoint_path(run.output, *run.resumed_at);
  if (fs::equivalent(*resumed_from, own, absent)) newest_ = run.resumed_at;
}

std::optional<std::int64_t> RunCheckpoints::best_step() const {
  if (run_.progress.best_step < 0) return std::nullopt;
  return run_.progress.best_step;
}

void RunCheckpoints::save(const CheckpointData& data) {
  const TrainConfig& train = run_.config.train;
  save_checkpoint(run_.output, data, train.keep, best_step(), train.log_norms.has_value());
  newest_ = data.step;
  confirmed_ = data.state_metadata.contains(kConfirmedKey);
}

void RunCheckpoints::confirm() {
  if (!newest_ || confirmed_) return;
  const TrainConfig& train = run_.config.train;
  confirm_checkpoint(run_.output, *newest_, train.keep, best_step(), train.log_norms.has_value());
  confirmed_ = true;
}

}  // namespace dtn
