// Adaptive gradient clipping (Brock et al., "High-performance large-scale image recognition without
// normalization", ICML 2021), as in timm. For each unit, a part of the weights w with gradient g:
//   largest = factor max(||w||, 1e-3)
//   g *= largest / max(scale ||g||, 1e-6)  unless  scale ||g|| < largest
// If the gradient of a unit contains NaN or infinity, the unit stays non-finite.
#pragma once

#include <cstdint>

#include "core/queue.h"

namespace dtn {

// Range of elements that are clipped together.
struct GradientUnit {
  std::int64_t begin, end;
};

struct AdaptiveClip {
  float* grad;
  const float* param;
  std::int64_t unit_count;
  const GradientUnit* units;  // [unit_count], on the gradient's device; no overlaps
  double factor;
  double scale = 1;  // later factor of the gradients
};
void run(CpuQueue&, const AdaptiveClip&);
void run(CudaQueue&, const AdaptiveClip&);

}  // namespace dtn
