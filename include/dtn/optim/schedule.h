// The learning rate over a run.
#pragma once

#include <cstdint>

#include "dtn/config/train_config.h"

namespace dtn {

class LearningRate {
 public:
  // batch: the global batch, for lr_scale_batch.
  LearningRate(const OptimConfig& optim, const ScheduleConfig& schedule, std::int64_t batch,
               std::int64_t steps_per_epoch);

  // The rate of the update that follows `step` finished ones. With t = step / steps_per_epoch in
  // epochs (rounded down when the schedule moves per epoch), T epochs and W of warmup:
  //   t < W:   warmup_lr + t (peak - warmup_lr) / W
  //   cosine:  min_lr + (peak - min_lr) (1 + cos(pi t / T)) / 2,   constant:  peak
  double at(std::int64_t step) const;

  double peak() const { return peak_; }
  std::int64_t total_steps() const { return total_steps_; }

 private:
  ScheduleConfig schedule_;
  double peak_;
  std::int64_t steps_per_epoch_, total_steps_;
  bool per_epoch_;
};

}  // namespace dtn
