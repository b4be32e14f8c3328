// Overlaps of detections and truths:
//
//   overlap = intersection / (area of the detection + area of the truth - intersection)
//   overlap = intersection / area of the detection        if the truth is a crowd
//
// Areas of boxes are width x height; those of masks count pixels. The order of the operations is
// that of COCO's own tool, and all of them are in double precision, so that ties are the same ties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tasks/coco_figures/objects.h"

namespace dtn {

// Overlaps [detections, truths], each from 0 to 1.
struct OverlapTable {
  std::size_t truths = 0;
  std::vector<double> values;

  // Row of a detection, [truths].
  std::span<const double> row(std::size_t detection) const {
    return std::span(values).subspan(detection * truths, truths);
  }
};

// Returns the overlap of two boxes, 0 if they do not touch.
double box_overlap(const CocoBox& found, const CocoBox& truth, bool crowd);

// Returns the overlaps of all pairs. Throws DataError, which says `image`, if a mask has another
// size than the mask that it is compared with.
OverlapTable overlaps_of(std::int64_t image, OverlapKind kind,
                         std::span<const FoundObject* const> found,
                         std::span<const TruthObject* const> truths);

// Returns the area of a detection in pixels: width x height, or the number of pixels of the mask.
double found_area(const FoundObject& found, OverlapKind kind);

}  // namespace dtn
