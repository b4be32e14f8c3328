// Random boxes, and a plain IoU, for the tests of detection.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "dtn/core/philox.h"
#include "tasks/boxes/boxes.h"

namespace dtn::test {

// Boxes with corners in [0, extent) and sides in [1, side + 1). Some coordinates are whole numbers,
// so that IoUs tie.
inline std::vector<Box> random_boxes(std::size_t count, std::uint32_t stream, float extent,
                                     float side) {
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto draw = [&](std::uint64_t k) {
      return philox_uniform({7, stream, 0}, 4 * static_cast<std::uint64_t>(i) + k);
    };
    Box b{draw(0) * extent, draw(1) * extent, 0, 0};
    float w = 1 + draw(2) * side, h = 1 + draw(3) * side;
    if (i % 2)
      b.x1 = std::floor(b.x1), b.y1 = std::floor(b.y1), w = std::floor(w), h = std::floor(h);
    b.x2 = b.x1 + w, b.y2 = b.y1 + h;
    boxes.push_back(b);
  }
  return boxes;
}

// The IoU, one rounded operation at a time.
inline float plain_iou(const Box& a, const Box& b) {
  volatile float w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  volatile float h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (w < 0) w = 0;
  if (h < 0) h = 0;
  volatile float inter = w * h;
  volatile float wa = a.x2 - a.x1, ha = a.y2 - a.y1, area_a = wa * ha;
  volatile float wb = b.x2 - b.x1, hb = b.y2 - b.y1, area_b = wb * hb;
  volatile float both = area_a + area_b, all = both - inter;
  return inter / std::max(static_cast<float>(all), 1e-6f);
}

}  // namespace dtn::test
