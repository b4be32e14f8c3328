// Scalar factors of LAMB, in float64 on every device; see optimizer_factors.h.
#pragma once

#include "kernels/optimizer/lamb.h"
#include "kernels/optimizer/optimizer_factors.h"

namespace dtn {

struct LambFactors {
  bool apply;
  float grad_scale, decay, beta1, rest1, beta2, rest2, correction1, root_correction2, eps;
  double lr;
};

DTN_HOST_DEVICE static inline LambFactors lamb_factors(const LambStep& args) {
  const BiasCorrections corrections = bias_corrections(args);
  LambFactors f;
  f.apply = is_applied(args.state);
  f.grad_scale = static_cast<float>(args.state ? args.state->grad_scale : args.grad_scale);
  f.decay = static_cast<float>(args.weight_decay);
  f.beta1 = static_cast<float>(args.beta1), f.rest1 = static_cast<float>(1.0 - args.beta1);
  f.beta2 = static_cast<float>(args.beta2), f.rest2 = static_cast<float>(1.0 - args.beta2);
  f.correction1 = static_cast<float>(corrections.first);
  f.root_correction2 = static_cast<float>(std::sqrt(corrections.second));
  f.eps = static_cast<float>(args.eps);
  f.lr = rate_of(args);
  return f;
}

// Sums of squares over a chunk or a tensor.
struct LambSums {
  double param, update;
};

// Returns the change of p per unit of u.
DTN_HOST_DEVICE static inline float lamb_step(const LambFactors& f, LambSums sums) {
  const bool is_moving = sums.param > 0 && sums.update > 0;
  const double ratio = is_moving ? std::sqrt(sums.param) / std::sqrt(sums.update) : 1.0;
  return static_cast<float>(-f.lr * ratio);
}

}  // namespace dtn
