#include "train/run_checkpoints.h"

#include <system_error>
#include <utility>

#include "train/rank_consistency.h"

namespace dtn {
namespace fs = std::filesystem;

RunCheckpoints::RunCheckpoints(const ExperimentConfig& config, const TrainerOptions& options,
                               std::vector<std::string> class_names, Learner& learner,
                               RunProgress& progress, RunRecorder& recorder,
                               const RunPeriods& periods, Communicator& ranks)
    : config_(config),
      folder_(options.output),
      class_names_(std::move(class_names)),
      // dtn-analyze compares the end of a run that logs its lambdas with the start.
      permanent_{.first = config.train.log_norms.has_value(),
                 .every = periods.steps_between_kept()},
      learner_(learner),
      progress_(progress),
      recorder_(recorder),
      ranks_(ranks) {
  if (!ranks.is_root() || !options.resume_from || !progress.resumed_at) return;
  std::error_code absent;
  const fs::path own = checkpoint_path(folder_, *progress.resumed_at);
  if (fs::equivalent(*options.resume_from, own, absent)) newest_ = progress.resumed_at;
}

std::optional<std::int64_t> RunCheckpoints::best_step() const {
  if (progress_.best_step < 0) return std::nullopt;
  return progress_.best_step;
}

void RunCheckpoints::save() {
  check_equal_weights(learner_.parameters().values(), ranks_);
  if (!ranks_.is_root()) return;
  const Communicator::Work writing(ranks_, "writing a checkpoint", Communicator::Work::kLong);
  CheckpointData data = take_snapshot(config_, learner_, progress_);
  data.class_names = class_names_;
  recorder_.sync();
  save_checkpoint(folder_, data, config_.train.keep, best_step(), permanent_);
  newest_ = data.step;
  confirmed_ = data.state_metadata.contains(kConfirmedKey);
}

void RunCheckpoints::confirm() {
  if (!newest_ || confirmed_) return;
  confirm_checkpoint(folder_, *newest_, config_.train.keep, best_step(), permanent_);
  confirmed_ = true;
}

}  // namespace dtn
