// A model together with everything that one optimizer step changes.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dtn/config/train_config.h"
#include "dtn/dist/communicator.h"
#include "dtn/models/vit.h"
#include "dtn/optim/optimizer.h"

namespace dtn {

struct StepReport {
  double loss = 0;       // mean over the global batch
  double grad_norm = 0;  // before clipping
  bool finite = true;    // false: the update was left out and the weights are untouched
  // Time for which a CUDA device had nothing to do before this step; nothing on the CPU.
  std::optional<double> idle_seconds;
};

// What the images of a step show, on the device.
struct StepLabels {
  StepLabels(Tensor own_labels) : own(std::move(own_labels)) {}
  StepLabels(Tensor own_labels, Tensor partner_labels, Tensor label_share)
      : own(std::move(own_labels)),
        partner(std::move(partner_labels)),
        share(std::move(label_share)) {}

  Tensor own;  // [n] int64
  // Where images are mixed: the labels of those they are mixed with, [n] int64, and how much their
  // own count, [n] float32. Else undefined.
  Tensor partner, share;
};

class Learner {
 public:
  // One of `ranks` that learn the same, each from its rows of every batch (rows_of_rank() in
  // data/feed/epoch_plan.h); null: alone. The ranks must outlive it. Throws ConfigError for a precision
  // the device does not have, or a batch that cannot be shared out.
  explicit Learner(const ExperimentConfig& config, Device device = kCpu,
                   Communicator* ranks = nullptr);
  ~Learner();

  // One optimizer step on this rank's rows of a global batch, in micro-batches; gradients are those
  // of the mean loss over the whole batch, and every rank makes the same update.
  // `step` counts finished steps and keys the random numbers. images [n, channels, size, size]
  // float32 and labels are on the device. There, a step is only enqueued, from the third on with
  // images and labels in the same place as one captured graph (train.step_graph); at most kInFlight
  // steps may await their reports.
  void start_step(const Tensor& images, const StepLabels& labels, std::int64_t step, double lr);
  // The report of the oldest step that was started; waits for it.
  StepReport finish_step();
  // Steps started whose reports have not been taken.
  std::size_t unfinished() const;
  static constexpr std::size_t kInFlight = 2;

  // start_step and finish_step.
  StepReport step(const Tensor& images, const StepLabels& labels, std::int64_t step, double lr);

  VisionTransformer& model() { return *model_; }
  Optimizer& optimizer() { return optimizer_; }
  // Null when the config has no EMA.
  MovingAverage* average() { return average_ ? &*average_ : nullptr; }
  DType compute_dtype() const { return compute_; }
  Device device() const { return device_; }

  // Updates carried out, for checkpoints; waits for what is under way.
  std::int64_t updates() const;
  void set_updates(std::int64_t n);

 private:
  struct Pipeline;
  struct MicroBatch;
  void share_batches();
  void run_step(const Tensor& images, const StepLabels& labels, std::int64_t step);
  std::vector<MicroBatch> cut(std::int64_t rows) const;
  void accumulate(const Tensor& images, const StepLabels& labels, const MicroBatch& part,
                  std::int64_t step);
  void average_buffers();

  TrainConfig train_;
  double clip_;  // 0: none
  std::uint64_t seed_;
  DType compute_;
  Device device_;
  Communicator* ranks_;                      // null: alone
  std::vector<std::int64_t> rows_of_ranks_;  // of a global batch
  std::unique_ptr<VisionTransformer> model_;
  Optimizer optimizer_;
  std::optional<MovingAverage> average_;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace dtn
