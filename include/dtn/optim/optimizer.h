// The update of all parameters from their gradients, and the moving average of the weights.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dtn/config/train_config.h"
#include "dtn/nn/parameters.h"

namespace dtn {

struct StepInputs;
struct UpdateState;

// AdamW or SGD over the flat buffers of a store (float32), where the store is, two passes: the
// parameters that decay and those that do not.
class Optimizer {
 public:
  Optimizer(const OptimConfig& config, ParameterStore& store);

  // One update with the gradients times grad_scale; refreshes the bfloat16 copies.
  void step(double lr, double grad_scale);
  // The same with the rate and the scale read where the parameters are (kernels/optimizer.h), which
  // also counts the updates; nothing happens when that update is to be left out.
  void step(const StepInputs* inputs, const UpdateState* state);
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t n) { updates_ = n; }

  // The flat state buffers by name (exp_avg, exp_avg_sq or momentum_buffer), laid out like the
  // store's values; a checkpoint writes them and reads them back in place.
  std::vector<std::pair<std::string, Tensor>> state() const;

 private:
  struct Update;
  void update_all(const Update& update);
  void update_range(std::int64_t begin, std::int64_t end, const Update& update,
                    double weight_decay);

  OptimConfig config_;
  ParameterStore& store_;
  Tensor first_, second_;  // [flat] moments; second only with AdamW
  std::int64_t updates_ = 0;
};

// Exponential moving average of the weights, started at the weights themselves.
class MovingAverage {
 public:
  MovingAverage(ParameterStore& store, double decay);

  // With `state`, nothing happens when that update was left out.
  void update(const UpdateState* state = nullptr);
  Tensor& values() { return average_; }
  // Exchanges the model's weights with the average; call it twice to evaluate the average.
  void swap();

 private:
  ParameterStore& store_;
  double decay_;
  Tensor average_;  // [flat]
};

// to = decay to + (1 - decay) from, for all parameters and buffers of two stores of equal layout:
// how a teacher follows. With `state`, nothing happens when that update was left out.
void average_into(ParameterStore& to, const ParameterStore& from, double decay,
                  const UpdateState* state = nullptr);

}  // namespace dtn
