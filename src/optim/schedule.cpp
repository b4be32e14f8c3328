#include "dtn/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtn/core/check.h"

namespace dtn {

LearningRate::LearningRate(const OptimConfig& optim, const ScheduleConfig& schedule,
                           std::int64_t batch, std::int64_t steps_per_epoch)
    : schedule_(schedule),
      peak_(optim.lr *
            (optim.lr_scale_batch ? static_cast<double>(batch) / *optim.lr_scale_batch : 1.0)),
      steps_per_epoch_(std::max<std::int64_t>(1, steps_per_epoch)) {
  DTN_CHECK(schedule.steps.has_value() != schedule.epochs.has_value(),
            "exactly one of schedule.steps and schedule.epochs must be set");
  total_steps_ = schedule.steps ? *schedule.steps : *schedule.epochs * steps_per_epoch_;
  SchedulePer per =
      schedule.per.value_or(schedule.steps ? SchedulePer::kStep : SchedulePer::kEpoch);
  per_epoch_ = per == SchedulePer::kEpoch;
}

double LearningRate::at(std::int64_t step) const {
  auto per = static_cast<double>(steps_per_epoch_);
  double epochs = static_cast<double>(total_steps_) / per;
  double t = static_cast<double>(step) / per;
  if (per_epoch_) t = std::floor(t);
  if (t < schedule_.warmup_epochs) {
    return schedule_.warmup_lr + t * (peak_ - schedule_.warmup_lr) / schedule_.warmup_epochs;
  }
  if (schedule_.name == ScheduleKind::kConstant) return peak_;
  double progress = epochs > 0 ? std::min(1.0, t / epochs) : 1.0;
  return schedule_.min_lr +
         (peak_ - schedule_.min_lr) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

}  // namespace dtn
