#include "dtn/optim/optimizer.h"

#include "kernels/optimizer/optimizer.h"

namespace dtn {

struct Optimizer::Update {
  double lr = 0, grad_scale = 1;
  const StepInputs* inputs = nullptr;
  const UpdateState* state = nullptr;
};

Optimizer::Optimizer(const OptimConfig& config, ParameterStore& store)
    : config_(config), store_(store) {
  first_ = Tensor::zeros({store.flat_size()}, DType::kFloat32, store.device());
  if (config.name == OptimizerKind::kAdamW) {
    second_ = Tensor::zeros({store.flat_size()}, DType::kFloat32, store.device());
  }
}

void Optimizer::step(double lr, double grad_scale) {
  ++updates_;
  update_all({lr, grad_scale, nullptr, nullptr});
}

void Optimizer::step(const StepInputs* inputs, const UpdateState* state) {
  update_all({0, 1, inputs, state});
}

void Optimizer::update_all(const Update& update) {
  update_range(0, store_.decay_end(), update, config_.weight_decay);
  update_range(store_.decay_end(), store_.flat_size(), update, 0);
}

void Optimizer::update_range(std::int64_t begin, std::int64_t end, const Update& update,
                             double weight_decay) {
  if (begin == end) return;
  auto part = [&](Tensor& flat) { return flat.slice(begin, end).raw(); };
  auto* param = static_cast<float*>(part(store_.values()));
  auto* grad = static_cast<const float*>(part(store_.gradients()));
  auto* low =
      store_.has_bfloat16() ? static_cast<bfloat16*>(part(store_.bfloat16_values())) : nullptr;
  auto* first = static_cast<float*>(part(first_));
  std::int64_t count = end - begin;
  if (config_.name == OptimizerKind::kAdamW) {
    run_on(store_.device(),
           AdamWStep{count, param, first, static_cast<float*>(part(second_)), grad, low, update.lr,
                     config_.beta1, config_.beta2, config_.eps, weight_decay, updates_,
                     update.grad_scale, update.inputs, update.state});
  } else {
    run_on(store_.device(),
           SgdStep{count, param, first, grad, low, update.lr, config_.momentum, weight_decay,
                   updates_, update.grad_scale, update.inputs, update.state});
  }
}

std::vector<std::pair<std::string, Tensor>> Optimizer::state() const {
  if (config_.name == OptimizerKind::kAdamW) return {{"exp_avg", first_}, {"exp_avg_sq", second_}};
  return {{"momentum_buffer", first_}};
}

void average_into(ParameterStore& to, const ParameterStore& from, double decay,
                  const UpdateState* state) {
  DTN_CHECK(to.values().numel() == from.values().numel(), "average_into: a store of ",
            to.values().numel(), " values cannot follow one of ", from.values().numel());
  run_on(to.device(), EmaStep{to.values().numel(), static_cast<float*>(to.values().raw()),
                              static_cast<const float*>(from.values().raw()), decay, state});
  to.restart_buffers();
  to.refresh_bfloat16();
}

MovingAverage::MovingAverage(ParameterStore& store, double decay)
    : store_(store), decay_(decay), average_(store.values().clone()) {}

void MovingAverage::update(const UpdateState* state) {
  run_on(store_.device(), EmaStep{average_.numel(), static_cast<float*>(average_.raw()),
                                  static_cast<const float*>(store_.values().raw()), decay_, state});
}

void MovingAverage::swap() {
  Tensor values = store_.values().clone();
  store_.values().copy_from(average_);
  average_.copy_from(values);
  store_.refresh_bfloat16();
}

}  // namespace dtn
