#include "dtn/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/optimizer.h"

namespace dtn {

Optimizer::Optimizer(const OptimConfig& config, ParameterStore& store)
    : config_(config), store_(store) {
  first_ = Tensor::zeros({store.flat_size()}, DType::kFloat32);
  if (config.name == OptimizerKind::kAdamW) {
    second_ = Tensor::zeros({store.flat_size()}, DType::kFloat32);
  }
}

void Optimizer::step(double lr, double grad_scale) {
  ++updates_;
  update_range(0, store_.decay_end(), lr, grad_scale, config_.weight_decay);
  update_range(store_.decay_end(), store_.flat_size(), lr, grad_scale, 0);
}

void Optimizer::update_range(std::int64_t begin, std::int64_t end, double lr, double grad_scale,
                             double weight_decay) {
  if (begin == end) return;
  float* param = store_.values().data<float>() + begin;
  const float* grad = store_.gradients().data<float>() + begin;
  bfloat16* low =
      store_.has_bfloat16() ? store_.bfloat16_values().data<bfloat16>() + begin : nullptr;
  float* first = first_.data<float>() + begin;
  std::int64_t count = end - begin;
  if (config_.name == OptimizerKind::kAdamW) {
    run(cpu_queue(),
        AdamWStep{count, param, first, second_.data<float>() + begin, grad, low, lr, config_.beta1,
                  config_.beta2, config_.eps, weight_decay, updates_, grad_scale});
  } else {
    run(cpu_queue(), SgdStep{count, param, first, grad, low, lr, config_.momentum, weight_decay,
                             updates_, grad_scale});
  }
}

std::vector<std::pair<std::string, Tensor>> Optimizer::state() const {
  if (config_.name == OptimizerKind::kAdamW) return {{"exp_avg", first_}, {"exp_avg_sq", second_}};
  return {{"momentum_buffer", first_}};
}

double gradient_norm(ParameterStore& store) {
  double sum = 0;
  run(cpu_queue(), SumSquares{store.flat_size(), store.gradients().data<float>(), &sum});
  return std::sqrt(sum);
}

MovingAverage::MovingAverage(ParameterStore& store, double decay)
    : store_(store), decay_(decay), average_(store.values().clone()) {}

void MovingAverage::update() {
  run(cpu_queue(),
      EmaStep{average_.numel(), average_.data<float>(), store_.values().data<float>(), decay_});
}

void MovingAverage::swap() {
  float* values = store_.values().data<float>();
  std::swap_ranges(values, values + average_.numel(), average_.data<float>());
  store_.refresh_bfloat16();
}

}  // namespace dtn
