// Registry entries of the optimizers, one file each.
#pragma once

#include <optional>

#include "dtn/optim/optimizer.h"
#include "kernels/optimizer/optimizer.h"

namespace dtn {

OptimizerEntry adamw_entry();
OptimizerEntry lamb_entry();
OptimizerEntry lion_entry();
OptimizerEntry muon_entry();
OptimizerEntry sgd_entry();

// Returns a row that creates a T.
template <class T>
OptimizerEntry optimizer_entry(std::string name, std::string doc) {
  return {{std::move(name), std::move(doc)},
          [](const OptimConfig& config, ParameterStore& store) -> std::unique_ptr<Optimizer> {
            return std::make_unique<T>(config, store);
          }};
}

// Returns a problem if Nesterov's momentum is on without a momentum.
inline std::optional<ConfigProblem> check_nesterov(const OptimConfig& optim) {
  if (!optim.nesterov.value_or(false) || optim.momentum != 0) return {};
  return ConfigProblem{{"optim.nesterov", "optim.momentum"},
                       "optim.nesterov needs a momentum, but optim.momentum is 0"};
}

// Sets the kernel arguments that all optimizers share.
template <class Arguments>
void set_common(Arguments& args, const OptimizerUpdate& u) {
  Tensor values = u.values, low = u.bfloat16_values;
  args.count = values.numel();
  args.param = static_cast<float*>(values.raw());
  args.param_bf16 = low.defined() ? static_cast<bfloat16*>(low.raw()) : nullptr;
  args.lr = u.lr;
  args.weight_decay = u.weight_decay;
  if constexpr (requires { args.t; }) args.t = u.updates;
  if constexpr (requires { args.grad; }) {
    args.grad = static_cast<const float*>(u.gradients.raw());
    args.grad_scale = u.grad_scale;
  }
  args.inputs = u.inputs;
  args.state = u.decision;
  args.lr_factor = u.lr_factor;
  args.decays = u.decays;
}

// Returns buffer i of the state.
inline float* state_of(const OptimizerUpdate& u, std::size_t i) {
  Tensor buffer = u.state[i];
  return static_cast<float*>(buffer.raw());
}

// Sets the arguments of Adam's moments, which are the first two buffers of the state.
template <class Arguments>
void set_adam(Arguments& args, const OptimizerUpdate& u, const OptimConfig& config) {
  set_common(args, u);
  args.m = state_of(u, 0);
  args.v = state_of(u, 1);
  args.beta1 = config.beta1;
  args.beta2 = config.beta2;
  args.eps = config.eps.value();
}

}  // namespace dtn
