// Targets of Mask R-CNN's masks.
//
// M is the mask of a truth in the padded image: its pixels at the original size, resized by the
// nearest pixel (source index floor(i old / new)), mirrored if the image is, and padded with 0. The
// target of a region is RoIAlign (see roi_align.h) of M at scale 1, cut at 1/2:
//    target[p, q] = 1 if sum_ij Ay[p, i] M[i, j] Ax[q, j] >= 1/2, else 0
// M is never made. Ay and Ax take the weights of the resized pixels to those of the original ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/coco/rle.h"
#include "tasks/boxes/boxes.h"
#include "tasks/detect/detection.h"

namespace dtn {

// Side of a target, in cells.
inline constexpr std::int64_t kMaskTargetSize = 28;

// The way from the file to the padded image.
struct MaskFrame {
  ResizedImage image;
  std::int64_t padded_height, padded_width;  // pixels, at least those of the resized image
  bool mirrored = false;                     // left and right are exchanged
};

// The mask of one truth, read once for all regions of that truth.
class TruthMask {
 public:
  // Throws Error if the mask has not the original size of the image.
  TruthMask(const Rle& mask, const MaskFrame& frame);

  // Writes the target [size, size] of a region in pixels of the resized image, cut at the padded
  // image. The target of a box that is empty, or has a NaN, is 0. Sums are in float64; a sum within
  // 1e-9 of 1/2 counts as 1/2. Throws Error for a span of another size.
  void write_target(const Box& region, std::span<std::uint8_t> target,
                    std::int64_t size = kMaskTargetSize) const;

 private:
  struct Run {
    std::int64_t begin, end;  // rows [begin, end) of a column that are set
  };

  // The runs of an original column.
  std::span<const Run> column(std::int64_t x) const {
    const auto i = static_cast<std::size_t>(x);
    return std::span(runs_).subspan(starts_[i], starts_[i + 1] - starts_[i]);
  }

  MaskFrame frame_;
  std::vector<Run> runs_;            // column by column
  std::vector<std::size_t> starts_;  // [original width + 1], of the columns
};

}  // namespace dtn
