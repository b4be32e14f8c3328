#include "dtn/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

// Tolerance in epochs. Fractions of epochs are rounded, so an epoch that is nearly reached counts
// as reached.
constexpr double kNearly = 1e-9;

// Returns the number of drops of a step schedule up to epoch t.
double drops(const ScheduleConfig& schedule, double t) {
  if (schedule.decay_epochs) return std::floor(t / *schedule.decay_epochs + kNearly);
  return static_cast<double>(std::ranges::count_if(
      schedule.milestones, [=](double epoch) { return t + kNearly >= epoch; }));
}

}  // namespace

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
  if (!schedule.fits(epochs_of(total_steps_))) {
    throw ConfigError(
        cat("schedule: warmup_epochs, cooldown_epochs and, for wsd, decay_epochs do not fit into "
            "the run (steps: ",
            total_steps_, ", epochs: ", format("%.4g", epochs_of(total_steps_)),
            "); shorten them or lengthen the run"));
  }
}

double LearningRate::epochs_of(std::int64_t steps) const {
  return static_cast<double>(steps) / static_cast<double>(steps_per_epoch_);
}

double LearningRate::at(std::int64_t step) const {
  if (schedule_.name == ScheduleKind::kRsqrt) {
    const auto t = static_cast<double>(step);
    const auto w = static_cast<double>(schedule_.warmup_steps.value());
    return peak_ * std::min(1.0, t / w) / std::sqrt(std::max(t, w));
  }
  double t = epochs_of(step), end = epochs_of(total_steps_) - schedule_.cooldown_epochs;
  if (per_epoch_) t = std::floor(t);
  if (t < schedule_.warmup_epochs) {
    return schedule_.warmup_lr + t * (peak_ - schedule_.warmup_lr) / schedule_.warmup_epochs;
  }
  if (schedule_.cooldown_epochs > 0 && t + kNearly >= end) return schedule_.min_lr;
  const double before = schedule_.warmup_prefix ? schedule_.warmup_epochs : 0;
  return scheduled(t - before, end - before);
}

// Returns the rate after t of the `length` epochs in which the schedule changes the rate.
double LearningRate::scheduled(double t, double length) const {
  const ScheduleConfig& s = schedule_;
  const double progress = length > 0 ? std::min(1.0, t / length) : 1.0;
  const double height = peak_ - s.min_lr;
  switch (s.name) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kRsqrt: break;  // depends on steps, see at()
    case ScheduleKind::kCosine:
      return s.min_lr + height * (1 + std::cos(std::numbers::pi * progress)) / 2;
    case ScheduleKind::kLinear: return s.min_lr + height * (1 - progress);
    case ScheduleKind::kPoly:
      return s.min_lr + height * std::pow(1 - progress, s.power.value_or(0.5));
    case ScheduleKind::kStep:
      return std::max(s.min_lr, peak_ * std::pow(s.gamma.value_or(0.1), drops(s, t)));
    case ScheduleKind::kWsd: {
      const double left = std::max(0.0, length - t) / s.decay_epochs.value();
      return left >= 1 ? peak_ : s.min_lr + height * left;
    }
  }
  return peak_;
}

}  // namespace dtn
