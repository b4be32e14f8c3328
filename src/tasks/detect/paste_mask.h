// Masks of objects in images.
#pragma once

#include <cstdint>
#include <span>

#include "data/coco/rle.h"
#include "tasks/detect/boxes.h"

namespace dtn {

// Returns the mask of an object: the pixels of a height x width image at which its probability is
// at least 1/2. `logits` [n, n] are those of cells that divide the box. The probability at a pixel
// is that of the cells around it, bilinear between their centres, and outside of them 0. A box that
// is empty or not finite has no pixels, and a logit that is not a number counts as 0 probability.
Rle paste_mask(std::span<const float> logits, const Box& box, std::int64_t height,
               std::int64_t width);

}  // namespace dtn
