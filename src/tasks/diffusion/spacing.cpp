#include "tasks/diffusion/spacing.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "dtn/core/check.h"

namespace dtn {
namespace {

// Number of multiples of `stride` below `steps`.
std::int64_t multiples(std::int64_t steps, std::int64_t stride) {
  return (steps + stride - 1) / stride;
}

// The least stride with exactly `kept` multiples below `steps`; 0: there is none.
std::int64_t stride_for(std::int64_t steps, std::int64_t kept) {
  const std::int64_t stride = multiples(steps, kept);
  return multiples(steps, stride) == kept ? stride : 0;
}

// The numbers of steps nearest to `kept` that have a stride, such as "36 or 38".
std::string nearest_counts(std::int64_t steps, std::int64_t kept) {
  for (std::int64_t distance = 1;; ++distance) {
    const std::int64_t below = kept - distance, above = kept + distance;
    const bool fits_below = below >= 2 && stride_for(steps, below) > 0;
    const bool fits_above = above <= steps && stride_for(steps, above) > 0;
    if (fits_below && fits_above) return cat(below, " or ", above);
    if (fits_below) return cat(below);
    if (fits_above) return cat(above);
  }
}

std::vector<std::int64_t> running_sum(std::int64_t steps, std::int64_t kept) {
  const double stride = static_cast<double>(steps - 1) / static_cast<double>(kept - 1);
  std::vector<std::int64_t> result;
  double sum = 0;
  for (std::int64_t k = 0; k < kept; ++k, sum += stride) {
    result.push_back(static_cast<std::int64_t>(std::nearbyint(sum)));  // half to even
  }
  return result;
}

std::vector<std::int64_t> strided(std::int64_t steps, std::int64_t kept) {
  const std::int64_t stride = stride_for(steps, kept);
  if (stride == 0) {
    throw ConfigError(cat("DDIM cannot take ", kept, " steps: no stride visits exactly ", kept,
                          " of the ", steps, " steps of the process; take ",
                          nearest_counts(steps, kept), " steps, or use the DDPM sampler"));
  }
  std::vector<std::int64_t> result;
  for (std::int64_t t = 0; t < steps; t += stride) result.push_back(t);
  return result;
}

}  // namespace

std::vector<std::int64_t> spaced_steps(SamplerKind kind, std::int64_t steps, std::int64_t kept) {
  if (kept < 2 || kept > steps) {
    throw ConfigError(cat("cannot sample in ", kept, kept == 1 ? " step" : " steps",
                          "; the process of the model has ", steps, " steps, so take 2 to ",
                          steps));
  }
  return kind == SamplerKind::kDdim ? strided(steps, kept) : running_sum(steps, kept);
}

std::int64_t ddim_steps_up_to(std::int64_t steps, std::int64_t kept) {
  kept = std::clamp<std::int64_t>(kept, 2, steps);
  while (stride_for(steps, kept) == 0) --kept;  // 2 steps have a stride
  return kept;
}

}  // namespace dtn
