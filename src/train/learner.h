// A task and everything that one optimizer step changes.
#pragma once

#include <cstddef>
#include <optional>

#include "dtn/config/train_config.h"
#include "dtn/dist/communicator.h"
#include "dtn/optim/optimizer.h"
#include "dtn/tasks/task.h"
#include "optim/adaptive_clipping.h"
#include "optim/parameter_clipping.h"
#include "train/gradient_sum.h"
#include "train/micro_batches.h"
#include "train/step_pipeline.h"

namespace dtn {

class Learner {
 public:
  // All `ranks` train the same weights, each on its rows of every batch (rows_of_rank() in
  // data/feed/epoch_plan.h); null: a single process. The task must be on the device. The task and
  // the ranks must outlive the learner. Throws ConfigError for a precision that the device does not
  // have, or a batch that cannot be divided among the ranks.
  Learner(const ExperimentConfig& config, Task& task, Device device = kCpu,
          Communicator* ranks = nullptr,
          const OptimizerRegistry& optimizers = optimizer_registry());

  // Starts one optimizer step on this rank's rows of a global batch, in micro-batches. Gradients
  // are those of the mean loss over the whole batch, and every rank makes the same update.
  // `inputs.step` counts finished steps and keys the random numbers. The fields are on the device.
  // On a CUDA device, a step is only enqueued. From the third step with the fields at the same
  // addresses on, a step is one captured graph (train.step_graph). At most kInFlight steps may
  // await their reports.
  void start_step(const Fields& batch, const StepInputs& inputs);
  // The same with the weight decay and the scheduled values at the start of a run.
  void start_step(const Fields& batch, std::int64_t step, double lr);
  // Waits for the oldest step in flight and returns its report.
  StepReport finish_step() { return pipeline_.finish(ranks_); }
  // Returns the number of started steps whose reports have not been taken.
  std::size_t unfinished() const { return pipeline_.unfinished(); }
  static constexpr std::size_t kInFlight = StepPipeline::kInFlight;

  // Adds the gradients of a batch to the gradient buffers, without an update. For estimates.
  void add_gradients(const Fields& batch, std::int64_t step);
  // start_step and finish_step.
  StepReport step(const Fields& batch, std::int64_t step, double lr);

  // The factor of the gradients in memory that gives those of the last started step: they are sums
  // over its micro-batches. Of the kinds of clipping, only that of the global norm is not in them.
  double gradient_scale() const { return gradient_scale_; }

  Task& task() { return task_; }
  // Returns the store that learns: the first of the task's stores.
  ParameterStore& parameters() { return parameters_; }
  Optimizer& optimizer() { return *optimizer_; }
  // Null if the config has no EMA.
  MovingAverage* average() { return average_ ? &*average_ : nullptr; }
  DType compute_dtype() const { return compute_; }
  Device device() const { return device_; }

  // Returns the number of updates made, for checkpoints. Waits for the steps in flight.
  std::int64_t updates() const { return pipeline_.updates(); }
  void set_updates(std::int64_t n) { pipeline_.set_updates(n); }

  // The step from which late parameters are updated (Parameter::late), 0 by default: as the others.
  // Call before the first step.
  void set_late_from(std::int64_t step) { late_from_ = step; }
  // Returns true if a parameter that is trained is late.
  bool has_late_parameters() const { return has_late_; }
  // Returns the number of updates of late parameters, for checkpoints. Waits for the steps in
  // flight.
  std::int64_t late_updates() const { return pipeline_.late_updates(); }
  void set_late_updates(std::int64_t n) { pipeline_.set_late_updates(n); }

 private:
  void run_step(const Fields& batch, const std::vector<MicroBatch>& parts, std::int64_t step);
  StepInputs usual_inputs(std::int64_t step, double lr) const;
  void preview(const Fields& batch, const std::vector<MicroBatch>& parts, std::int64_t step);
  void accumulate(const Fields& batch, const MicroBatch& part, std::int64_t step);
  void check_shares() const;
  Context context_of(const MicroBatch& part, std::int64_t step, Tape& tape);
  void update(std::size_t parts);
  void decide_update(double scale);
  void average_buffers();

  TrainConfig train_;
  double clip_;          // 0: none
  double weight_decay_;  // at the start of the run
  std::uint64_t seed_;
  DType compute_;
  Device device_;
  Communicator* ranks_;  // null: a single process
  Task& task_;
  ParameterStore& parameters_;
  bool has_late_;
  std::int64_t late_from_ = 0;
  double gradient_scale_ = 1;
  MicroBatches micro_batches_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<AdaptiveClipping> adaptive_clipping_;
  std::optional<ParameterClipping> parameter_clipping_;
  std::optional<MovingAverage> average_;
  // Set if there are several ranks.
  std::optional<GradientSum> gradient_sum_;
  Tensor rows_;  // [n] int64, indices of this rank's rows in the global batch
  StepPipeline pipeline_;
};

}  // namespace dtn
