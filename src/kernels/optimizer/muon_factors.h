// Scalar factors of Muon, in float64 on every device; see optimizer_factors.h.
#pragma once

#include "kernels/optimizer/muon.h"
#include "kernels/optimizer/optimizer_factors.h"

namespace dtn {

struct MuonMomentumFactors {
  bool apply;
  float grad_scale, keep, rest;  // mu and 1 - mu
};

DTN_HOST_DEVICE static inline MuonMomentumFactors momentum_factors(const MuonMomentum& args) {
  return {is_applied(args.state),
          static_cast<float>(args.state ? args.state->grad_scale : args.grad_scale),
          static_cast<float>(args.momentum), static_cast<float>(1.0 - args.momentum)};
}

struct MuonStepFactors {
  bool apply;
  float decay, step;
};

DTN_HOST_DEVICE static inline MuonStepFactors muon_factors(const MuonStep& args) {
  const double lr = rate_of(args);
  return {is_applied(args.state), static_cast<float>(1.0 - lr * args.weight_decay),
          static_cast<float>(-lr * args.scale)};
}

DTN_HOST_DEVICE static inline float norm_factor(const DivideByNorm& args) {
  const double norm = std::sqrt(*args.sum_squares);
  return static_cast<float>(1.0 / (norm > args.least ? norm : args.least));
}

}  // namespace dtn
