// A task together with everything that one optimizer step changes.
#pragma once

#include <cstddef>
#include <optional>

#include "dtn/config/train_config.h"
#include "dtn/dist/communicator.h"
#include "dtn/optim/optimizer.h"
#include "dtn/tasks/task.h"
#include "optim/adaptive_clipping.h"
#include "train/gradient_sum.h"
#include "train/micro_batches.h"
#include "train/step_pipeline.h"

namespace dtn {

class Learner {
 public:
  // One of `ranks` that learn the same, each from its rows of every batch (rows_of_rank() in
  // data/feed/epoch_plan.h); null: alone. The task, which is on the device, and the ranks must
  // outlive it. Throws ConfigError for a precision the device does not have, or a batch that cannot
  // be shared out.
  Learner(const ExperimentConfig& config, Task& task, Device device = kCpu,
          Communicator* ranks = nullptr,
          const OptimizerRegistry& optimizers = optimizer_registry());

  // One optimizer step on this rank's rows of a global batch, in micro-batches; gradients are those
  // of the mean loss over the whole batch, and every rank makes the same update.
  // `step` counts finished steps and keys the random numbers. The fields are on the device. There,
  // a step is only enqueued, from the third on with the fields in the same place as one captured
  // graph (train.step_graph); at most kInFlight steps may await their reports.
  void start_step(const Fields& batch, std::int64_t step, double lr);
  // The report of the oldest step that was started; waits for it.
  StepReport finish_step() { return pipeline_.finish(ranks_); }
  // Steps started whose reports have not been taken.
  std::size_t unfinished() const { return pipeline_.unfinished(); }
  static constexpr std::size_t kInFlight = StepPipeline::kInFlight;

  // start_step and finish_step.
  StepReport step(const Fields& batch, std::int64_t step, double lr);

  Task& task() { return task_; }
  // What learns: the first of the task's stores.
  ParameterStore& parameters() { return parameters_; }
  Optimizer& optimizer() { return *optimizer_; }
  // Null when the config has no EMA.
  MovingAverage* average() { return average_ ? &*average_ : nullptr; }
  DType compute_dtype() const { return compute_; }
  Device device() const { return device_; }

  // Updates carried out, for checkpoints; waits for what is under way.
  std::int64_t updates() const { return pipeline_.updates(); }
  void set_updates(std::int64_t n) { pipeline_.set_updates(n); }

 private:
  void run_step(const Fields& batch, const std::vector<MicroBatch>& parts, std::int64_t step);
  void accumulate(const Fields& batch, const MicroBatch& part, std::int64_t step);
  Context context_of(const MicroBatch& part, std::int64_t step, Tape& tape);
  void update(std::size_t parts);
  void average_buffers();

  TrainConfig train_;
  double clip_;  // 0: none
  std::uint64_t seed_;
  DType compute_;
  Device device_;
  Communicator* ranks_;  // null: alone
  Task& task_;
  ParameterStore& parameters_;
  MicroBatches micro_batches_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<AdaptiveClipping> adaptive_clipping_;
  std::optional<MovingAverage> average_;
  // Where there are several ranks.
  std::optional<GradientSum> gradient_sum_;
  Tensor rows_;  // [n] int64, the places of this rank's rows in the global batch
  StepPipeline pipeline_;
};

}  // namespace dtn
