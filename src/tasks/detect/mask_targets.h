// Targets of the mask head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/coco/rle.h"
#include "tasks/detect/batch.h"
#include "tasks/detect/boxes.h"

namespace dtn {

// The mask of a truth as the model sees it: resized from the pixels of the file by the nearest
// pixel, source index floor(i old / new), mirrored with the image, and padded with 0.
class TruthMask {
 public:
  // `mask` has the original size of the image.
  TruthMask(const Rle& mask, const BatchImage& image);

  // Writes the target of a box, [cells, cells] of 0 and 1: 1 where at least half of the cell is in
  // the mask, by ops::roi_align() of the mask with the box cut at the padded image.
  void write_target(const Box& box, std::int64_t cells, std::span<float> target) const;

 private:
  PixelSize padded_;
  std::int64_t width_;                        // of the mask in the file
  std::vector<std::uint8_t> pixels_;          // of the mask in the file
  std::vector<std::int32_t> rows_, columns_;  // of the file, for pixels of the image; -1: padding
};

}  // namespace dtn
