#include "train/run_schedule.h"

namespace dtn {

RunSchedule::RunSchedule(const ExperimentConfig& config, const Task& task,
                         std::int64_t steps_per_epoch, const ScheduleRegistry& schedules)
    : task_(task),
      rate_(config.optim, config.schedule, config.train.batch_size, steps_per_epoch, schedules),
      run_{rate_.total_steps(), steps_per_epoch},
      decay_(config.optim, rate_.total_steps()),
      decay_changes_(config.optim.weight_decay_end.has_value()) {}

StepInputs RunSchedule::at(std::int64_t step) const {
  StepInputs inputs{rate_.at(step), decay_.at(step), static_cast<std::uint32_t>(step)};
  set_scheduled(inputs, task_.scheduled(step, run_));
  return inputs;
}

std::vector<std::pair<std::string, double>> RunSchedule::logged_at(std::int64_t step) const {
  std::vector<std::pair<std::string, double>> logged;
  const std::vector<Named<double>> values = task_.scheduled(step, run_);
  if (decay_changes_ || !values.empty()) logged.emplace_back("weight_decay", decay_.at(step));
  for (const Named<double>& value : values) {
    logged.emplace_back(value.name, value.value);
  }
  return logged;
}

void set_scheduled(StepInputs& inputs, const std::vector<Named<double>>& values) {
  DTN_CHECK(values.size() <= kMaxScheduled, "a task schedules ", values.size(), " values; at most ",
            kMaxScheduled, " are passed on");
  for (std::size_t i = 0; i < values.size(); ++i) inputs.scheduled[i] = values[i].value;
}

}  // namespace dtn
