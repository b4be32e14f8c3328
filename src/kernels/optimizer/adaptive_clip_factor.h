// Factor for the gradient of a unit, in float64 on every device. Static, because every instruction
// set and device compiles a separate copy.
#pragma once

#include <cmath>

#include "dtn/core/host_device.h"
#include "kernels/optimizer/adaptive_clip.h"

namespace dtn {

// Computes the factor from the sums of squares of the unit's weights and gradient. NaN gives NaN.
DTN_HOST_DEVICE static inline float adaptive_factor(const AdaptiveClip& args, double weights,
                                                    double gradients) {
  const double weight_norm = std::sqrt(weights), norm = args.scale * std::sqrt(gradients);
  const double largest = args.factor * (weight_norm > 1e-3 ? weight_norm : 1e-3);
  if (norm < largest) return 1;
  return static_cast<float>(largest / (norm < 1e-6 ? 1e-6 : norm));
}

}  // namespace dtn
