// Greedy non-maximum suppression (NMS).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tasks/boxes/boxes.h"

namespace dtn {

inline constexpr std::int64_t kKeepAll = std::numeric_limits<std::int64_t>::max();

// Returns the indices of the boxes that stay, by falling score; of equal scores the lower index
// comes first. In this order, a box stays unless its IoU with a box that stayed is above the
// threshold (strictly). Stops when `most` boxes have stayed. NaN scores come last.
std::vector<std::int64_t> nms(std::span<const Box> boxes, std::span<const float> scores,
                              double threshold, std::int64_t most = kKeepAll);

// The same for boxes of several classes, of which only boxes of one class suppress one another.
// classes[i] is any number of 0 or above. `most` counts the boxes of all classes together.
std::vector<std::int64_t> nms_by_class(std::span<const Box> boxes, std::span<const float> scores,
                                       std::span<const std::int32_t> classes, double threshold,
                                       std::int64_t most = kKeepAll);

}  // namespace dtn
