// The learning rate over a run.
#pragma once

#include <cstdint>

#include "dtn/config/train_config.h"

namespace dtn {

class LearningRate {
 public:
  // batch: the global batch size, for lr_scale_batch. Throws ConfigError if warmup, final decay and
  // cooldown are longer than the run.
  LearningRate(const OptimConfig& optim, const ScheduleConfig& schedule, std::int64_t batch,
               std::int64_t steps_per_epoch);

  // The rate of the update after `step` finished updates. t = step / steps_per_epoch in epochs
  // (rounded down if the schedule is per epoch), W are the epochs of warmup, T those of the run:
  //     t < W:                    warmup_lr + t (peak - warmup_lr) / W
  //     t >= T - cooldown_epochs: min_lr, if cooldown_epochs > 0
  // Between them, S = T - cooldown_epochs; with warmup_prefix, t and S are reduced by W:
  //     constant:  peak
  //     cosine:    min_lr + (peak - min_lr) (1 + cos(pi t / S)) / 2
  //     linear:    min_lr + (peak - min_lr) (1 - t / S)
  //     poly:      min_lr + (peak - min_lr) (1 - t / S)^power
  //     step:      peak gamma^k, at least min_lr; k: milestones up to t, or floor(t / decay_epochs)
  //     wsd:       min_lr + (peak - min_lr) (S - t) / decay_epochs, at most peak
  // rsqrt depends on steps only, with w = warmup_steps (as in the Long-Range Arena, Tay et al.,
  // 2021):
  //     rsqrt:     peak min(1, step / w) / sqrt(max(step, w))
  double at(std::int64_t step) const;

  double peak() const { return peak_; }
  std::int64_t total_steps() const { return total_steps_; }

 private:
  double epochs_of(std::int64_t steps) const;
  double scheduled(double t, double length) const;

  ScheduleConfig schedule_;
  double peak_;
  std::int64_t steps_per_epoch_, total_steps_;
  bool per_epoch_;
};

}  // namespace dtn
