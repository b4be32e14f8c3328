// Values that change from step to step on a fixed schedule: the learning rate, the weight decay and
// the values that the task schedules.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dtn/optim/schedule.h"
#include "dtn/tasks/task.h"
#include "kernels/optimizer/optimizer.h"

namespace dtn {

// Sets the values that a task schedules.
void set_scheduled(StepInputs& inputs, const std::vector<Named<double>>& values);

class RunSchedule {
 public:
  // The task must outlive the object. Throws ConfigError as LearningRate does.
  RunSchedule(const ExperimentConfig& config, const Task& task, std::int64_t steps_per_epoch,
              const ScheduleRegistry& schedules);

  // The inputs of the step after `step` finished steps.
  StepInputs at(std::int64_t step) const;
  double learning_rate_at(std::int64_t step) const { return rate_.at(step); }
  // The values besides the learning rate that the metrics of that step contain. The weight decay is
  // among them if it changes, or if the task schedules values.
  std::vector<std::pair<std::string, double>> logged_at(std::int64_t step) const;

  double peak_rate() const { return rate_.peak(); }
  RunLength run() const { return run_; }

 private:
  const Task& task_;
  LearningRate rate_;
  RunLength run_;
  WeightDecay decay_;
  bool decay_changes_;
};

}  // namespace dtn
