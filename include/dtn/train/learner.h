// A model together with everything that one optimizer step changes.
#pragma once

#include <memory>
#include <optional>

#include "dtn/config/train_config.h"
#include "dtn/data/loader.h"
#include "dtn/models/vit.h"
#include "dtn/optim/optimizer.h"
#include "dtn/optim/schedule.h"

namespace dtn {

struct StepReport {
  double loss = 0;       // mean over the global batch
  double grad_norm = 0;  // before clipping
  bool finite = true;    // false: the update was left out and the weights are untouched
};

class Learner {
 public:
  // Throws ConfigError for a precision the device does not have.
  explicit Learner(const ExperimentConfig& config);

  // One optimizer step on a global batch, in micro-batches; gradients are those of the mean loss.
  // `step` counts finished steps and keys the random numbers.
  StepReport step(const Batch& batch, std::int64_t step, double lr);

  VisionTransformer& model() { return *model_; }
  Optimizer& optimizer() { return optimizer_; }
  // Null when the config has no EMA.
  MovingAverage* average() { return average_ ? &*average_ : nullptr; }
  DType compute_dtype() const { return compute_; }

 private:
  double accumulate(const Batch& batch, std::int64_t first, std::int64_t count, std::int64_t step);

  TrainConfig train_;
  std::optional<double> clip_;
  std::uint64_t seed_;
  DType compute_;
  std::unique_ptr<VisionTransformer> model_;
  Optimizer optimizer_;
  std::optional<MovingAverage> average_;
};

}  // namespace dtn
