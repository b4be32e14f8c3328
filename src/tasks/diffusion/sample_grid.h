// Samples of a diffusion model as one picture.
#pragma once

#include <cstdint>

#include "dtn/core/tensor.h"
#include "dtn/io/image.h"

namespace dtn {

// Returns samples [N, C, H, W] float32 in rows of `columns` pictures (0: ceil(sqrt N)), without
// gaps; places without a sample are black. A value x has the brightness round(127.5 (x + 1)),
// limited to 0 and 255; NaN is black. C is 1 (grey) or 3 (RGB). Throws Error otherwise, or if N is
// 0.
Image sample_grid(const Tensor& samples, std::int64_t columns = 0);

}  // namespace dtn
