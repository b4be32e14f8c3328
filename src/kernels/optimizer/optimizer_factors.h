// Scalar factors of the updates, in float64 on every device: computed on the host before a loop, or
// on a device by each block. Static, because every instruction set and device compiles a separate
// copy.
#pragma once

#include <cmath>

#include "dtn/core/host_device.h"
#include "kernels/optimizer/optimizer.h"

namespace dtn {

DTN_HOST_DEVICE static inline void prepare_update(const PrepareUpdate& args) {
  UpdateState& state = *args.state;
  const double norm = std::sqrt(*args.sum_squares) * args.scale;
  state.loss = static_cast<double>(*args.loss_sum) * args.scale;
  state.grad_norm = norm;
  state.grad_scale = args.scale;
  if (args.clip > 0 && norm > args.clip) state.grad_scale *= args.clip / (norm + args.epsilon);
  state.finite = std::isfinite(state.loss) && std::isfinite(norm);
  state.updates += state.finite;
  state.beta1 = args.beta1;
  state.beta2 = args.beta2;
  if (args.beta1 < 0 || args.beta2 < 0) return;
  const double t = static_cast<double>(state.updates);
  state.correction1 = 1.0 - std::pow(args.beta1, t);
  state.correction2 = 1.0 - std::pow(args.beta2, t);
}

// Returns true unless the update is skipped.
DTN_HOST_DEVICE static inline bool is_applied(const UpdateState* state) {
  return !state || state->finite != 0;
}

// Returns the learning rate of an update.
template <class Arguments>
DTN_HOST_DEVICE static inline double rate_of(const Arguments& args) {
  return args.inputs ? args.inputs->lr * args.lr_factor : args.lr;
}

struct BiasCorrections {
  double first, second;  // 1 - beta1^t, 1 - beta2^t
};

// Returns the bias corrections of AdamW or LAMB: those of prepare_update() for the same betas, or
// computed here.
template <class Arguments>
DTN_HOST_DEVICE static inline BiasCorrections bias_corrections(const Arguments& args) {
  const UpdateState* s = args.state;
  if (s && s->beta1 == args.beta1 && s->beta2 == args.beta2) {
    return {s->correction1, s->correction2};
  }
  const double t = static_cast<double>(s ? s->updates : args.t);
  return {1.0 - std::pow(args.beta1, t), 1.0 - std::pow(args.beta2, t)};
}

struct AdamWFactors {
  bool apply;
  float grad_scale, decay, beta1, rest1, beta2, rest2, root_correction2, step, eps;
};

DTN_HOST_DEVICE static inline AdamWFactors adamw_factors(const AdamWStep& args) {
  const double lr = rate_of(args);
  const BiasCorrections corrections = bias_corrections(args);
  AdamWFactors f;
  f.apply = is_applied(args.state);
  f.grad_scale = static_cast<float>(args.state ? args.state->grad_scale : args.grad_scale);
  f.decay = static_cast<float>(1.0 - lr * args.weight_decay);
  f.beta1 = static_cast<float>(args.beta1), f.rest1 = static_cast<float>(1.0 - args.beta1);
  f.beta2 = static_cast<float>(args.beta2), f.rest2 = static_cast<float>(1.0 - args.beta2);
  f.root_correction2 = static_cast<float>(std::sqrt(corrections.second));
  f.step = static_cast<float>(-lr / corrections.first);
  f.eps = static_cast<float>(args.eps);
  return f;
}

struct LionFactors {
  bool apply;
  float grad_scale, decay, beta1, rest1, beta2, rest2, step;
};

DTN_HOST_DEVICE static inline LionFactors lion_factors(const LionStep& args) {
  const double lr = rate_of(args);
  LionFactors f;
  f.apply = is_applied(args.state);
  f.grad_scale = static_cast<float>(args.state ? args.state->grad_scale : args.grad_scale);
  f.decay = static_cast<float>(1.0 - lr * args.weight_decay);
  f.beta1 = static_cast<float>(args.beta1), f.rest1 = static_cast<float>(1.0 - args.beta1);
  f.beta2 = static_cast<float>(args.beta2), f.rest2 = static_cast<float>(1.0 - args.beta2);
  f.step = static_cast<float>(-lr);
  return f;
}

struct SgdFactors {
  bool apply, first;
  float grad_scale, decay, momentum, step;
};

DTN_HOST_DEVICE static inline SgdFactors sgd_factors(const SgdStep& args) {
  SgdFactors f;
  f.apply = is_applied(args.state);
  f.first = (args.state ? args.state->updates : args.t) == 1;
  f.grad_scale = static_cast<float>(args.state ? args.state->grad_scale : args.grad_scale);
  f.decay = static_cast<float>(args.weight_decay);
  f.momentum = static_cast<float>(args.momentum);
  f.step = static_cast<float>(-rate_of(args));
  return f;
}

struct EmaFactors {
  bool apply;
  float decay, rest;
};

DTN_HOST_DEVICE static inline EmaFactors ema_factors(const EmaStep& args) {
  double decay = args.decay;
  if (args.warmup) {
    const double grown = 1.0 - std::pow(static_cast<double>(args.state->updates), -2.0 / 3.0);
    if (grown < decay) decay = grown;
  }
  return {is_applied(args.state), static_cast<float>(decay), static_cast<float>(1.0 - decay)};
}

}  // namespace dtn
