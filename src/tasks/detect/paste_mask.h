// Masks of detections in the original image.
#pragma once

#include <cstdint>
#include <span>

#include "data/coco/rle.h"
#include "tasks/boxes/boxes.h"

namespace dtn {

// Returns the mask of a detection in an image of height x width pixels. `logits` [n, n] are those
// of cells that divide the box, in pixels of that image. With the side of a cell
//    cell = (y2 - y1) / n
// the centre of pixel y lies at (y + 1/2 - y1) / cell - 1/2 between the centres of the cells
// 0 .. n - 1, and the same holds for x. A pixel is set if the sigmoids of the cells, interpolated
// bilinearly at its centre, are at least 1/2. Cells outside of the box are 0. A box that is empty
// or not finite sets no pixel, and a logit that is NaN counts as a sigmoid of 0. Throws Error if
// the logits are no square, and DataError for a size that check_mask_size() refuses.
Rle paste_mask(std::span<const float> logits, const Box& box, std::int64_t height,
               std::int64_t width);

}  // namespace dtn
