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

// A contiguous range of parameters with the same update rule.
struct ParameterRange {
  std::int64_t begin, end;  // in the flat buffers
  bool decays;              // the scheduled weight decay applies; otherwise it is 0
  double lr_factor;         // factor on the scheduled rate
  bool late;                // the parameters are late, see Parameter::late
  // First element and end of each tensor, counted from `begin`. The gaps between them are 0.
  std::vector<std::pair<std::int64_t, std::int64_t>> tensors;
};

// One update of a range of a store's flat buffers, on the device of the store.
struct OptimizerUpdate {
  // [n] float32, of the range.
  Tensor values, gradients;
  Tensor bfloat16_values{};       // [n], copies to update; undefined: none
  std::vector<Tensor> state{};    // [n] each, in the order of Optimizer::state()
  std::size_t range = 0;          // index in Optimizer::ranges()
  double weight_decay = 0;        // 0 unless `decays`
  double lr = 0, grad_scale = 1;  // gradients are multiplied by grad_scale
  std::int64_t updates = 0;       // number of updates, this one included
  // Never set on the CPU. If set, lr (without lr_factor), weight_decay (if the range decays),
  // grad_scale and the number of updates are read from device memory instead. Nothing may change if
  // the update is to be skipped (UpdateState).
  const StepInputs* inputs = nullptr;
  const UpdateState* decision = nullptr;
  double lr_factor = 1;
  bool decays = false;  // the parameters of the range decay
};

// An optimizer of all parameters of a store.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Makes one update, and updates the bfloat16 copies. Reads the rate, the weight decay, the factor
  // of the gradients and the number of updates on the device of the parameters. Changes nothing if
  // the update is to be skipped. `late`: the decision for late parameters; null: as for the others.
  void step(const StepInputs* inputs, const UpdateState* decision,
            const UpdateState* late = nullptr);

  // The flat state buffers by name, laid out like the store's values. A checkpoint saves them and
  // restores them in place.
  const std::vector<std::pair<std::string, Tensor>>& state() const { return state_; }

  // Added to the gradient's norm in the division for clipping.
  virtual double clip_epsilon() const { return 1e-6; }
  // The decay rates of the two moments. Optimizers without these moments do not use them.
  double beta1() const { return config_.beta1; }
  double beta2() const { return config_.beta2; }
  // Describes the parameters with different rates, for messages; empty: none.
  std::string rates() const;

 protected:
  // Creates a zero state buffer for each name. The store must be allocated and outlive the
  // optimizer. Throws ConfigError if a rate names layers or parameters that the store lacks.
  Optimizer(const OptimConfig& config, ParameterStore& store,
            std::initializer_list<const char*> state);

  // Makes one update of one range.
  virtual void update(const OptimizerUpdate&) = 0;
  const OptimConfig& config() const { return config_; }
  Device device() const { return store_.device(); }
  const std::vector<ParameterRange>& ranges() const { return ranges_; }

 private:
  void update_range(std::size_t range, const StepInputs* inputs, const UpdateState* decision);

  OptimConfig config_;
  ParameterStore& store_;
  std::vector<ParameterRange> ranges_;
  std::vector<std::pair<std::string, Tensor>> state_;  // [flat] each
};

// An optimizer in the registry.
struct OptimizerEntry {
  OptimizerSchema schema;
  std::function<std::unique_ptr<Optimizer>(const OptimConfig&, ParameterStore&)> make;

  const std::string& name() const { return schema.name; }
};

// The available optimizers.
using OptimizerRegistry = Registry<OptimizerEntry>;

// The optimizers of the library.
const OptimizerRegistry& optimizer_registry();

// Makes the optimizer config.name. Throws ConfigError, listing all names, if it is unknown.
std::unique_ptr<Optimizer> make_optimizer(
    const OptimConfig& config, ParameterStore& store,
    const OptimizerRegistry& optimizers = optimizer_registry());

// Exponential moving average of the weights, initialized with the weights.
class MovingAverage {
 public:
  // `warmup`: after update t, counted from 1, the decay is the smaller of `decay` and 1 - t^(-2/3).
  // Recent weights then dominate while the average is young.
  MovingAverage(ParameterStore& store, double decay, bool warmup = false);

  // Changes nothing if that update was skipped.
  void update(const UpdateState* state);
  Tensor& values() { return average_; }
  // Exchanges the model's weights with the average. Call it twice to evaluate the average.
  void swap();

 private:
  ParameterStore& store_;
  double decay_;
  bool warmup_;
  Tensor average_;  // [flat]
};

// Averages the parameters and buffers of `from` into a store of equal layout, such as a teacher's:
//     to = decay to + (1 - decay) from
// With `state`, changes nothing if that update was skipped.
void average_into(ParameterStore& to, const ParameterStore& from, double decay,
                  const UpdateState* state = nullptr);

// The same over the parameters alone, with a decay in the memory of their device that may change
// from step to step. With a decay of 1, `to` keeps its bits.
void average_parameters_into(ParameterStore& to, const ParameterStore& from, const double* decay,
                             const UpdateState* state = nullptr);

}  // namespace dtn
