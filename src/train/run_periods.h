// When something is due in a run: log lines, evaluations, checkpoints and the rest that a config
// gives a period.
#pragma once

#include <cstdint>
#include <optional>

#include "dtn/config/train_config.h"

namespace dtn {

// `step` counts finished steps; 0 is the start of the run.
class RunPeriods {
 public:
  // `evaluates`: the run has a validation split. `pictures`: Task::picture_period().
  RunPeriods(const TrainConfig& train, std::int64_t steps_per_epoch, std::int64_t total_steps,
             bool evaluates = true, std::optional<Period> pictures = std::nullopt)
      : train_(train),
        steps_per_epoch_(steps_per_epoch),
        total_steps_(total_steps),
        evaluates_(evaluates),
        pictures_(pictures) {}

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::int64_t total_steps() const { return total_steps_; }
  // Makes `step` the last one.
  void end_at(std::int64_t step) { total_steps_ = step; }
  bool is_last(std::int64_t step) const { return step == total_steps_; }
  double epoch_at(std::int64_t step) const {
    return static_cast<double>(step) / static_cast<double>(steps_per_epoch_);
  }

  bool log_due(std::int64_t step) const {
    return step == 1 || is_last(step) || due(train_.log_every, step);
  }
  bool evaluation_due(std::int64_t step) const { return evaluates_ && gradients_due(step); }
  // Interval at which the norms of the gradients are written, also without a validation split.
  bool gradients_due(std::int64_t step) const {
    return is_last(step) || due(train_.eval_every, step);
  }
  bool checkpoint_due(std::int64_t step) const {
    return is_last(step) || due(train_.checkpoint_every, step) ||
           (train_.keep_every && due(*train_.keep_every, step));
  }
  // Steps between checkpoints that are never removed; 0: there are none.
  std::int64_t steps_between_kept() const {
    return train_.keep_every ? steps_of(*train_.keep_every) : 0;
  }
  bool lambdas_due(std::int64_t step) const {
    return train_.log_norms && (step == 0 || is_last(step) || due(*train_.log_norms, step));
  }
  bool histograms_due(std::int64_t step) const {
    return train_.log_histograms && due(*train_.log_histograms, step);
  }
  // A picture that the task draws with the weights. The last step has one, too.
  bool picture_due(std::int64_t step) const {
    return pictures_ && pictures_->count > 0 && (is_last(step) || due(*pictures_, step));
  }
  // Returns true if something that is due needs the weights or gradients of exactly this step. The
  // next step must then wait.
  bool needs_state_of(std::int64_t step) const {
    return gradients_due(step) || checkpoint_due(step) || lambdas_due(step) ||
           histograms_due(step) || picture_due(step);
  }

 private:
  std::int64_t steps_of(const Period& period) const {
    return period.epochs ? period.count * steps_per_epoch_ : period.count;
  }
  bool due(const Period& period, std::int64_t step) const {
    return period.count > 0 && step % steps_of(period) == 0;
  }

  TrainConfig train_;
  std::int64_t steps_per_epoch_, total_steps_;
  bool evaluates_;
  std::optional<Period> pictures_;
};

}  // namespace dtn
