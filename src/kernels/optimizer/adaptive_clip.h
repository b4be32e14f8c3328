// Adaptive gradient clipping (Brock et al., "High-performance large-scale image recognition without
// normalization", ICML 2021), as in timm: for each unit, a part of the weights w with gradient g,
//   largest = factor max(||w||, 1e-3)
//   g *= largest / max(scale ||g||, 1e-6)  unless  scale ||g|| < largest
// A unit whose gradient has NaN or infinity is not finite afterwards either.
#pragma once

#include <cstdint>

#include "core/queue.h"

namespace dtn {

// Elements that are clipped together.
struct GradientUnit {
  std::int64_t begin, end;
};

struct AdaptiveClip {
  float* grad;
  const float* param;
  std::int64_t unit_count;
  const GradientUnit* units;  // [unit_count], where the gradient is; none overlap
  double factor;
  double scale = 1;  // what gradients are multiplied by later on
};
void run(CpuQueue&, const AdaptiveClip&);
void run(CudaQueue&, const AdaptiveClip&);

}  // namespace dtn
