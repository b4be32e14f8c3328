// Scalar factors of the updates, in float64 on every device: computed on the host before a loop, or
// on a device by each block. Static, because every instruction set and device compiles a separate
// copy.
#pragma once

#include <cmath>

#include "dtn/core/host_device.h"
#include "kernels/optimizer/adaptive_clip.h"
#include "kernels/optimizer/lamb.h"
#include "kernels/optimizer/muon.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/optimizer/parameter_clip.h"

namespace dtn {

// Counts the update unless it is skipped, and computes the bias corrections of these betas.
DTN_HOST_DEVICE static inline void count_update(UpdateState& state, double beta1, double beta2) {
  state.updates += state.finite;
  state.beta1 = beta1;
  state.beta2 = beta2;
  if (beta1 < 0 || beta2 < 0) return;
  const double t = static_cast<double>(state.updates);
  state.correction1 = 1.0 - std::pow(beta1, t);
  state.correction2 = 1.0 - std::pow(beta2, t);
}

DTN_HOST_DEVICE static inline void prepare_update(const PrepareUpdate& args) {
  UpdateState& state = *args.state;
  const double norm = std::sqrt(*args.sum_squares) * args.scale;
  state.loss = static_cast<double>(*args.loss_sum) * args.scale;
  state.grad_norm = norm;
  state.grad_scale = args.scale;
  if (args.clip > 0 && norm > args.clip) state.grad_scale *= args.clip / (norm + args.epsilon);
  state.finite = std::isfinite(state.loss) && std::isfinite(norm);
  count_update(state, args.beta1, args.beta2);
}

DTN_HOST_DEVICE static inline void prepare_late_update(const PrepareLateUpdate& args) {
  UpdateState& late = *args.late;
  const std::int64_t updates = late.updates;
  late = *args.state;
  late.updates = updates;
  late.finite = late.finite != 0 && args.inputs->step >= args.from_step;
  count_update(late, args.beta1, args.beta2);
}

// Returns true unless the update is skipped.
DTN_HOST_DEVICE static inline bool is_applied(const UpdateState* state) {
  return !state || state->finite != 0;
}

// Returns the learning rate of an update.
template <class Step>
DTN_HOST_DEVICE static inline double rate_of(const Step& args) {
  return args.inputs ? args.inputs->lr * args.lr_factor : args.lr;
}

// Returns the weight decay of an update.
template <class Step>
DTN_HOST_DEVICE static inline double decay_of(const Step& args) {
  if (!args.inputs) return args.weight_decay;
  return args.decays ? args.inputs->weight_decay : 0.0;
}

// Returns the factor of the gradients of an update.
template <class Step>
DTN_HOST_DEVICE static inline float grad_scale_of(const Step& args) {
  return static_cast<float>(args.state ? args.state->grad_scale : args.grad_scale);
}

struct BiasCorrections {
  double first, second;  // 1 - beta1^t, 1 - beta2^t
};

// Returns the bias corrections of AdamW or LAMB: those of prepare_update() for the same betas, or
// computed here.
DTN_HOST_DEVICE static inline BiasCorrections bias_corrections(const AdamWStep& args) {
  const UpdateState* s = args.state;
  if (s && s->beta1 == args.beta1 && s->beta2 == args.beta2) {
    return {s->correction1, s->correction2};
  }
  const double t = static_cast<double>(s ? s->updates : args.t);
  return {1.0 - std::pow(args.beta1, t), 1.0 - std::pow(args.beta2, t)};
}

// Factors that the updates with two betas share.
struct BetaFactors {
  bool apply;
  float grad_scale, decay, beta1, rest1, beta2, rest2;
};

template <class Factors, class Step>
DTN_HOST_DEVICE static inline Factors beta_factors(const Step& args, double decay) {
  Factors f;
  f.apply = is_applied(args.state);
  f.grad_scale = grad_scale_of(args);
  f.decay = static_cast<float>(decay);
  f.beta1 = static_cast<float>(args.beta1), f.rest1 = static_cast<float>(1.0 - args.beta1);
  f.beta2 = static_cast<float>(args.beta2), f.rest2 = static_cast<float>(1.0 - args.beta2);
  return f;
}

struct AdamWFactors : BetaFactors {
  float root_correction2, step, eps;
};

DTN_HOST_DEVICE static inline AdamWFactors factors_of(const AdamWStep& args) {
  const double lr = rate_of(args);
  const BiasCorrections corrections = bias_corrections(args);
  auto f = beta_factors<AdamWFactors>(args, 1.0 - lr * decay_of(args));
  f.root_correction2 = static_cast<float>(std::sqrt(corrections.second));
  f.step = static_cast<float>(-lr / corrections.first);
  f.eps = static_cast<float>(args.eps);
  return f;
}

struct LionFactors : BetaFactors {
  float step;
};

DTN_HOST_DEVICE static inline LionFactors factors_of(const LionStep& args) {
  const double lr = rate_of(args);
  auto f = beta_factors<LionFactors>(args, 1.0 - lr * decay_of(args));
  f.step = static_cast<float>(-lr);
  return f;
}

struct SgdFactors {
  bool apply, first;
  float grad_scale, decay, momentum, step;
};

DTN_HOST_DEVICE static inline SgdFactors factors_of(const SgdStep& args) {
  SgdFactors f;
  f.apply = is_applied(args.state);
  f.first = (args.state ? args.state->updates : args.t) == 1;
  f.grad_scale = grad_scale_of(args);
  f.decay = static_cast<float>(decay_of(args));
  f.momentum = static_cast<float>(args.momentum);
  f.step = static_cast<float>(-rate_of(args));
  return f;
}

struct EmaFactors {
  bool apply;
  float decay, rest;
};

DTN_HOST_DEVICE static inline EmaFactors factors_of(const EmaStep& args) {
  double decay = args.device_decay ? *args.device_decay : args.decay;
  if (args.warmup) {
    const double grown = 1.0 - std::pow(static_cast<double>(args.state->updates), -2.0 / 3.0);
    if (grown < decay) decay = grown;
  }
  // A product would turn -0 into 0, and weights that are not finite would spread.
  const bool apply = is_applied(args.state) && decay != 1;
  return {apply, static_cast<float>(decay), static_cast<float>(1.0 - decay)};
}

struct LambFactors : BetaFactors {
  float correction1, root_correction2, eps;
  double lr;
};

DTN_HOST_DEVICE static inline LambFactors factors_of(const LambStep& args) {
  const BiasCorrections corrections = bias_corrections(args);
  auto f = beta_factors<LambFactors>(args, decay_of(args));
  f.correction1 = static_cast<float>(corrections.first);
  f.root_correction2 = static_cast<float>(std::sqrt(corrections.second));
  f.eps = static_cast<float>(args.eps);
  f.lr = rate_of(args);
  return f;
}

// Sums of squares over a chunk or a tensor, for LAMB.
struct LambSums {
  double param, update;
};

// Returns the change of p per unit of u.
DTN_HOST_DEVICE static inline float lamb_step(const LambFactors& f, LambSums sums) {
  const bool is_moving = sums.param > 0 && sums.update > 0;
  const double ratio = is_moving ? std::sqrt(sums.param) / std::sqrt(sums.update) : 1.0;
  return static_cast<float>(-f.lr * ratio);
}

struct MuonMomentumFactors {
  bool apply;
  float grad_scale, keep, rest;  // mu and 1 - mu
};

DTN_HOST_DEVICE static inline MuonMomentumFactors factors_of(const MuonMomentum& args) {
  return {is_applied(args.state), grad_scale_of(args), static_cast<float>(args.momentum),
          static_cast<float>(1.0 - args.momentum)};
}

struct MuonStepFactors {
  bool apply;
  float decay, step;
};

DTN_HOST_DEVICE static inline MuonStepFactors factors_of(const MuonStep& args) {
  const double lr = rate_of(args);
  return {is_applied(args.state), static_cast<float>(1.0 - lr * decay_of(args)),
          static_cast<float>(-lr * args.scale)};
}

DTN_HOST_DEVICE static inline float factors_of(const DivideByNorm& args) {
  const double norm = std::sqrt(*args.sum_squares);
  return static_cast<float>(1.0 / (norm > args.least ? norm : args.least));
}

// Computes the factor of adaptive clipping from the sums of squares of a unit's weights and
// gradient. NaN gives NaN.
DTN_HOST_DEVICE static inline float adaptive_factor(const AdaptiveClip& args, double weights,
                                                    double gradients) {
  const double weight_norm = std::sqrt(weights), norm = args.scale * std::sqrt(gradients);
  const double largest = args.factor * (weight_norm > 1e-3 ? weight_norm : 1e-3);
  if (norm < largest) return 1;
  return static_cast<float>(largest / (norm < 1e-6 ? 1e-6 : norm));
}

// Computes the factor of clipping from the sum of squares of a tensor's gradient. It is 1 if that
// is NaN.
DTN_HOST_DEVICE static inline float parameter_factor(const ParameterClip& args, double squares) {
  const double factor = args.clip / (args.scale * std::sqrt(squares) + 1e-6);
  return factor < 1 ? static_cast<float>(factor) : 1.0f;
}

}  // namespace dtn
