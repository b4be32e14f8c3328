#include "dtn/optim/schedule.h"

#include <cmath>
#include <numbers>

#include "core/format.h"
#include "dtn/core/check.h"
#include "optim/schedules.h"

namespace dtn {

LearningRate::LearningRate(const OptimConfig& optim, const ScheduleConfig& schedule,
                           std::int64_t batch, std::int64_t steps_per_epoch,
                           const ScheduleRegistry& schedules)
    : schedule_(schedule),
      peak_(optim.peak_lr(batch)),
      steps_per_epoch_(std::max<std::int64_t>(1, steps_per_epoch)) {
  DTN_CHECK(schedule.steps.has_value() != schedule.epochs.has_value(),
            "exactly one of schedule.steps and schedule.epochs must be set");
  total_steps_ = schedule.steps ? *schedule.steps : *schedule.epochs * steps_per_epoch_;
  SchedulePer per =
      schedule.per.value_or(schedule.steps ? SchedulePer::kStep : SchedulePer::kEpoch);
  per_epoch_ = per == SchedulePer::kEpoch;
  const ScheduleEntry& row = schedules.at(schedule.name);
  const auto& needed = row.schema.min_epochs;
  if (!schedule.fits(epochs_of(total_steps_),
                     needed ? std::optional(needed(schedule)) : std::nullopt)) {
    throw ConfigError(
        cat("schedule: warmup_epochs, cooldown_epochs and, for wsd, decay_epochs do not fit into "
            "the run (steps: ",
            total_steps_, ", epochs: ", format("%.4g", epochs_of(total_steps_)),
            "); shorten them or lengthen the run"));
  }
  warmup_steps_ = std::llround(schedule.warmup_epochs * static_cast<double>(steps_per_epoch_));
  linear_warmup_ = !row.has_warmup;
  curve_ = row.make(schedule, peak_);
}

double LearningRate::epochs_of(std::int64_t steps) const {
  return static_cast<double>(steps) / static_cast<double>(steps_per_epoch_);
}

double LearningRate::at(std::int64_t step) const {
  double t = epochs_of(step), end = epochs_of(total_steps_) - schedule_.cooldown_epochs;
  if (per_epoch_) t = std::floor(t);
  if (linear_warmup_ && t < schedule_.warmup_epochs) {
    return schedule_.warmup_lr + t * (peak_ - schedule_.warmup_lr) / schedule_.warmup_epochs;
  }
  if (schedule_.cooldown_epochs > 0 && t + kNearly >= end) return schedule_.min_lr;
  const double before = schedule_.warmup_prefix ? schedule_.warmup_epochs : 0;
  return curve_({step, t - before, end - before, warmup_steps_, total_steps_});
}

WeightDecay::WeightDecay(const OptimConfig& optim, std::int64_t total_steps)
    : start_(optim.weight_decay),
      end_(optim.weight_decay_end.value_or(optim.weight_decay)),
      total_steps_(std::max<std::int64_t>(1, total_steps)) {}

double WeightDecay::at(std::int64_t step) const {
  if (start_ == end_) return start_;
  const double progress = static_cast<double>(step) / static_cast<double>(total_steps_);
  return end_ + (start_ - end_) * (1 + std::cos(std::numbers::pi * std::min(1.0, progress))) / 2;
}

}  // namespace dtn
