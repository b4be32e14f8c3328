// The update of all parameters from their gradients, and the moving average of the weights.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"
#include "dtn/core/registry.h"
#include "dtn/nn/parameters.h"

namespace dtn {

struct StepInputs;
struct UpdateState;

// Parameters that lie side by side and are updated alike.
struct ParameterRange {
  std::int64_t begin, end;  // in the flat buffers
  double weight_decay;
  double lr_factor;  // on the scheduled rate
  // First element and end of each tensor, counted from `begin`. What is between them is 0.
  std::vector<std::pair<std::int64_t, std::int64_t>> tensors;
};

// One update of a range of the flat buffers of a store, where the store is.
struct OptimizerUpdate {
  // [n] float32, of parameters that lie side by side and are updated alike.
  Tensor values, gradients;
  Tensor bfloat16_values{};     // [n], the copies to be refreshed; undefined: there are none
  std::vector<Tensor> state{};  // [n] each, in the order of Optimizer::state()
  std::size_t range = 0;        // its place in Optimizer::ranges()
  double weight_decay = 0;
  double lr = 0, grad_scale = 1;  // gradients are to be multiplied by the latter
  std::int64_t updates = 0;       // carried out, this one included
  // When set, which on the CPU they never are: lr, to be multiplied by lr_factor, grad_scale and
  // the number of updates are found there instead, in the memory of the device, and nothing may
  // change when the update is to be left out (kernels/optimizer.h).
  const StepInputs* inputs = nullptr;
  const UpdateState* decision = nullptr;
  double lr_factor = 1;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update with the gradients times grad_scale; refreshes the bfloat16 copies.
  void step(double lr, double grad_scale);
  // The same with the rate and the scale read where the parameters are; nothing happens when that
  // update is to be left out.
  void step(const StepInputs* inputs, const UpdateState* decision);
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t n) { updates_ = n; }

  // The flat state buffers by name, laid out like the store's values; a checkpoint writes them and
  // reads them back in place.
  const std::vector<std::pair<std::string, Tensor>>& state() const { return state_; }

  // What the gradient's norm is increased by where the gradient is divided by it to be clipped.
  virtual double clip_epsilon() const { return 1e-6; }
  // The decay rates of the two moments; optimizers with others do not use them.
  double beta1() const { return config_.beta1; }
  double beta2() const { return config_.beta2; }
  // Which parameters have a rate of their own, for people; empty: none.
  std::string rates() const;

 protected:
  // With a state buffer of zeros of each name. The store must be allocated, and outlive this.
  // Throws ConfigError for a rate of layers or parameters that the store does not have.
  Optimizer(const OptimConfig& config, ParameterStore& store,
            std::initializer_list<const char*> state);

  virtual void update(const OptimizerUpdate&) = 0;
  const OptimConfig& config() const { return config_; }
  Device device() const { return store_.device(); }
  const std::vector<ParameterRange>& ranges() const { return ranges_; }

 private:
  void update_all(const OptimizerUpdate& update);
  void update_range(std::size_t range, OptimizerUpdate update);

  OptimConfig config_;
  ParameterStore& store_;
  std::vector<ParameterRange> ranges_;
  std::vector<std::pair<std::string, Tensor>> state_;  // [flat] each
  std::int64_t updates_ = 0;
};

struct OptimizerRow {
  OptimizerSchema schema;
  std::function<std::unique_ptr<Optimizer>(const OptimConfig&, ParameterStore&)> make;

  const std::string& name() const { return schema.name; }
};

using OptimizerRegistry = Registry<OptimizerRow>;

// Ours.
const OptimizerRegistry& optimizer_registry();

// By config.name. Throws ConfigError that names all there are.
std::unique_ptr<Optimizer> make_optimizer(
    const OptimConfig& config, ParameterStore& store,
    const OptimizerRegistry& optimizers = optimizer_registry());

// Exponential moving average of the weights, started at the weights themselves.
class MovingAverage {
 public:
  // `warmup`: after update t, counted from 1, the decay is the lesser of `decay` and
  // 1 - t^(-2/3), so that what was learnt lately counts while the average is young.
  MovingAverage(ParameterStore& store, double decay, bool warmup = false);

  // With `state`, nothing happens when that update was left out; a warmup counts updates there.
  void update(const UpdateState* state = nullptr);
  Tensor& values() { return average_; }
  // Exchanges the model's weights with the average; call it twice to evaluate the average.
  void swap();

 private:
  ParameterStore& store_;
  double decay_;
  bool warmup_;
  Tensor average_;  // [flat]
};

// to = decay to + (1 - decay) from, for all parameters and buffers of two stores of equal layout:
// how a teacher follows. With `state`, nothing happens when that update was left out.
void average_into(ParameterStore& to, const ParameterStore& from, double decay,
                  const UpdateState* state = nullptr);

}  // namespace dtn
