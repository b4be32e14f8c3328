// The learning rate and the weight decay over a run, and the registry of schedules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"
#include "dtn/core/registry.h"

namespace dtn {

// The time of an update. It lies between warmup and cooldown, unless the schedule has a warmup of
// its own.
struct ScheduleTime {
  std::int64_t step;  // finished updates of the run
  // Epochs t (rounded down if the schedule is per epoch), and the epochs S in which the schedule
  // changes the rate. Both count from the start of the run or, with warmup_prefix, from the end of
  // the warmup.
  double epoch, length;
  // Steps of the warmup (schedule.warmup_epochs, rounded) and of the run.
  std::int64_t warmup_steps = 0, total_steps = 0;

  // t / S, at most 1.
  double progress() const { return length > 0 ? std::min(1.0, epoch / length) : 1.0; }
};

// The learning rate at a time.
using RateCurve = std::function<double(const ScheduleTime&)>;

// A kind of schedule, chosen by schedule.name.
struct ScheduleEntry {
  ScheduleSchema schema;
  // Makes the curve of a run whose largest rate is `peak`.
  std::function<RateCurve(const ScheduleConfig&, double peak)> make;
  // True: the curve contains the warmup. False: the rate rises along a straight line during
  // schedule.warmup_epochs, and then follows the curve.
  bool has_warmup = false;

  const std::string& name() const { return schema.name; }
};

// The kinds of schedules that a program knows.
using ScheduleRegistry = Registry<ScheduleEntry>;

// The schedules of the library.
const ScheduleRegistry& schedule_registry();

// The learning rate of every update of a run.
class LearningRate {
 public:
  // batch: the global batch size, for lr_scale_batch. Throws ConfigError if warmup, final decay and
  // cooldown are longer than the run.
  LearningRate(const OptimConfig& optim, const ScheduleConfig& schedule, std::int64_t batch,
               std::int64_t steps_per_epoch,
               const ScheduleRegistry& schedules = schedule_registry());

  // The rate of the update after `step` finished updates. t = step / steps_per_epoch in epochs
  // (rounded down if the schedule is per epoch), W are the epochs of warmup, T those of the run:
  //     t < W:                    warmup_lr + t (peak - warmup_lr) / W, if the curve has no warmup
  //     t >= T - cooldown_epochs: min_lr, if cooldown_epochs > 0
  //     otherwise:                the curve of the schedule
  double at(std::int64_t step) const;

  double peak() const { return peak_; }
  std::int64_t total_steps() const { return total_steps_; }

 private:
  double epochs_of(std::int64_t steps) const;

  ScheduleConfig schedule_;
  double peak_;
  RateCurve curve_;
  std::int64_t steps_per_epoch_, total_steps_, warmup_steps_;
  bool per_epoch_, linear_warmup_;
};

// The weight decay of every update of a run: optim.weight_decay, or with optim.weight_decay_end
// half a cosine from one to the other, as in DINO's training code (Caron et al., ICCV 2021).
class WeightDecay {
 public:
  // total_steps: the updates of the run.
  WeightDecay(const OptimConfig& optim, std::int64_t total_steps);

  // The decay of the update after `step` finished updates, i of n in all:
  //     end + (start - end) (1 + cos(pi i / n)) / 2
  double at(std::int64_t step) const;

 private:
  double start_, end_;
  std::int64_t total_steps_;
};

}  // namespace dtn
