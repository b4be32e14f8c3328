// One update of an optimizer from plain numbers.
#pragma once

#include "dtn/optim/optimizer.h"
#include "kernels/optimizer/optimizer.h"

namespace dtn::test {

// State of update number `updates`, which is carried out.
inline UpdateState update_state(std::int64_t updates, double grad_scale = 1) {
  UpdateState state;
  state.updates = updates;
  state.grad_scale = grad_scale;
  state.finite = 1;
  return state;
}

inline void take_step(Optimizer& optimizer, double lr, double grad_scale, std::int64_t updates,
                      double weight_decay = OptimConfig().weight_decay) {
  const StepInputs inputs{lr, weight_decay, 0};
  const UpdateState state = update_state(updates, grad_scale);
  optimizer.step(&inputs, &state);
}

}  // namespace dtn::test
