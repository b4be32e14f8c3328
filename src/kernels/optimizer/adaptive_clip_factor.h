// What the gradient of a unit is multiplied by, in float64 wherever it is computed; static, because
// every instruction set and device compiles its own.
#pragma once

#include <cmath>

#include "dtn/core/host_device.h"
#include "kernels/optimizer/adaptive_clip.h"

namespace dtn {

// From the sums of squares of its weights and of its gradient. NaN makes NaN.
DTN_HOST_DEVICE static inline float adaptive_factor(const AdaptiveClip& args, double weights,
                                                    double gradients) {
  const double weight_norm = std::sqrt(weights), norm = args.scale * std::sqrt(gradients);
  const double largest = args.factor * (weight_norm > 1e-3 ? weight_norm : 1e-3);
  if (norm < largest) return 1;
  return static_cast<float>(largest / (norm < 1e-6 ? 1e-6 : norm));
}

}  // namespace dtn
