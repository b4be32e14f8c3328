// Pictures of any size for models that need multiples of a number of pixels.
#pragma once

#include <cstdint>

#include "dtn/core/tensor.h"

namespace dtn {

// Continues pictures [N, C, H, W] float32 on the host to the right and below by their mirror
// images, without repeating the edge: columns 0 .. W - 1, W - 2, .. 0, 1, .. until both sides are
// multiples.
Tensor with_mirrored_border(const Tensor& pictures, std::int64_t multiple);

// The left upper part [N, C, height, width] of pictures.
Tensor without_border(const Tensor& pictures, std::int64_t height, std::int64_t width);

}  // namespace dtn
