#include "dtn/optim/optimizer.h"

#include "kernels/optimizer/optimizer.h"
#include "optim/rates.h"

namespace dtn {

Optimizer::Optimizer(const OptimConfig& config, ParameterStore& store,
                     std::initializer_list<const char*> state)
    : config_(config), store_(store), ranges_(parameter_ranges(config, store)) {
  for (const char* name : state) {
    state_.emplace_back(name, Tensor::zeros({store.flat_size()}, DType::kFloat32, store.device()));
  }
}

void Optimizer::step(const StepInputs* inputs, const UpdateState* decision,
                     const UpdateState* late) {
  for (std::size_t range = 0; range < ranges_.size(); ++range) {
    update_range(range, inputs, ranges_[range].late && late ? late : decision);
  }
}

void Optimizer::update_range(std::size_t range, const StepInputs* inputs,
                             const UpdateState* decision) {
  const ParameterRange& r = ranges_[range];
  OptimizerUpdate u;
  if (device() == kCpu) {
    if (!decision->finite) return;
    u.lr = inputs->lr * r.lr_factor;
    u.weight_decay = r.decays ? inputs->weight_decay : 0;
    u.grad_scale = decision->grad_scale;
    u.updates = decision->updates;
  } else {
    u.inputs = inputs;
    u.decision = decision;
  }
  u.values = store_.values().slice(r.begin, r.end);
  u.gradients = store_.gradients().slice(r.begin, r.end);
  if (store_.has_bfloat16()) u.bfloat16_values = store_.bfloat16_values().slice(r.begin, r.end);
  for (const auto& [name, flat] : state_) u.state.push_back(flat.slice(r.begin, r.end));
  u.range = range;
  u.lr_factor = r.lr_factor;
  u.decays = r.decays;
  update(u);
}

std::string Optimizer::rates() const { return describe_rates(config_, store_); }

std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config, ParameterStore& store,
                                          const OptimizerRegistry& optimizers) {
  return optimizers.at(config.name).make(config, store);
}

void average_into(ParameterStore& to, const ParameterStore& from, double decay,
                  const UpdateState* state) {
  DTN_CHECK(to.values().numel() == from.values().numel(), "average_into: cannot average ",
            from.values().numel(), " values into ", to.values().numel());
  run_on(to.device(), EmaStep{to.values().numel(), static_cast<float*>(to.values().raw()),
                              static_cast<const float*>(from.values().raw()), decay, state});
  to.restart_buffers();
  to.refresh_bfloat16();
}

void average_parameters_into(ParameterStore& to, const ParameterStore& from, const double* decay,
                             const UpdateState* state) {
  DTN_CHECK(to.flat_size() == from.flat_size(), "average_parameters_into: cannot average ",
            from.flat_size(), " values into ", to.flat_size());
  // Frozen values, too: they may have started with other values in `to`.
  EmaStep step{from.flat_size(), static_cast<float*>(to.values().raw()),
               static_cast<const float*>(from.values().raw()), 0, state};
  step.device_decay = decay;
  run_on(to.device(), step);
  to.refresh_bfloat16();
}

MovingAverage::MovingAverage(ParameterStore& store, double decay, bool warmup)
    : store_(store), decay_(decay), warmup_(warmup), average_(store.values().clone()) {}

void MovingAverage::update(const UpdateState* state) {
  // Skips frozen values, whose average is the value itself.
  for (const auto& [begin, end] : store_.live_ranges()) {
    run_on(store_.device(), EmaStep{end - begin, static_cast<float*>(average_.raw()) + begin,
                                    static_cast<const float*>(store_.values().raw()) + begin,
                                    decay_, state, warmup_});
  }
}

void MovingAverage::swap() {
  Tensor values = store_.values().clone();
  store_.values().copy_from(average_);
  average_.copy_from(values);
  store_.refresh_bfloat16();
}

}  // namespace dtn
