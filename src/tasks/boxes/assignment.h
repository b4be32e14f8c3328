// Assignment of boxes (anchors or proposals) to truths by IoU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tasks/boxes/boxes.h"

namespace dtn {

// Values of an assignment besides the index of a truth.
inline constexpr std::int32_t kBackgroundBox = -1, kIgnoredBox = -2;

// Thresholds of the IoU.
struct AssignmentRule {
  float positive;          // a box at or above it, with its best truth, is positive
  float negative;          // a box whose best IoU is below it is background
  float least_forced = 0;  // least best IoU of a truth whose best boxes are forced
};

inline constexpr AssignmentRule kRetinaNetRule{0.5f, 0.4f, 0.0f};
inline constexpr AssignmentRule kRpnRule{0.7f, 0.3f, 0.3f};
inline constexpr AssignmentRule kRoiRule{0.5f, 0.5f, 0.5f};

// Returns the truth of each box, kBackgroundBox or kIgnoredBox:
//    best IoU over the truths < negative: background
//    best IoU >= positive: the truth with that IoU, the first one on ties
//    then for the truths in order, if the best IoU of a truth over the boxes is at least
//    least_forced: every box with exactly this IoU gets the truth
// All other boxes are ignored, and so are boxes for which `counts` is 0: they match nothing. An
// empty `counts` counts all boxes. Without truths, all boxes that count are background.
//
// Boxes that follow one another should be near one another, as anchors in raster order are: the
// search skips groups of boxes that a truth does not touch.
std::vector<std::int32_t> assign_boxes(std::span<const Box> boxes, std::span<const Box> truths,
                                       const AssignmentRule& rule,
                                       std::span<const std::uint8_t> counts = {});

}  // namespace dtn
