#include "tasks/boxes/boxes.h"

#include <algorithm>

#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn {
namespace {

constexpr float kLeastUnion = 1e-6f;
constexpr std::size_t kChunk = 64;  // IoUs between two looks at the threshold

inline float larger(float a, float b) { return a > b ? a : b; }
inline float smaller(float a, float b) { return a < b ? a : b; }

inline float overlap(const Box& a, float area_a, const Box& b, float area_b) {
  const float w = larger(smaller(a.x2, b.x2) - larger(a.x1, b.x1), 0.0f);
  const float h = larger(smaller(a.y2, b.y2) - larger(a.y1, b.y1), 0.0f);
  const float inter = w * h;
  return inter / larger((area_a + area_b) - inter, kLeastUnion);
}

}  // namespace

float area_of(const Box& box) { return (box.x2 - box.x1) * (box.y2 - box.y1); }

BoxColumns::BoxColumns(std::span<const Box> boxes)
    : x1(boxes.size()), y1(boxes.size()), x2(boxes.size()), y2(boxes.size()), area(boxes.size()) {
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    x1[i] = boxes[i].x1, y1[i] = boxes[i].y1, x2[i] = boxes[i].x2, y2[i] = boxes[i].y2;
    area[i] = area_of(boxes[i]);
  }
}

void ious_with(const Box& box, const BoxColumns& others, std::size_t first, std::size_t count,
               float* __restrict to) {
  const float own = area_of(box);
  const float* __restrict x1 = others.x1.data() + first;
  const float* __restrict y1 = others.y1.data() + first;
  const float* __restrict x2 = others.x2.data() + first;
  const float* __restrict y2 = others.y2.data() + first;
  const float* __restrict area = others.area.data() + first;
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = overlap(box, own, {x1[i], y1[i], x2[i], y2[i]}, area[i]);
  }
}

float iou(const Box& a, const Box& b) { return overlap(a, area_of(a), b, area_of(b)); }

bool overlaps_any(const Box& box, const BoxColumns& others, std::size_t first, std::size_t count,
                  float threshold) {
  float overlap[kChunk];
  for (std::size_t i = 0; i < count; i += kChunk) {
    const std::size_t part = std::min(kChunk, count - i);
    ious_with(box, others, first + i, part, overlap);
    bool above = false;
    for (std::size_t k = 0; k < part; ++k) above |= overlap[k] > threshold;
    if (above) return true;
  }
  return false;
}

Box clip_box(const Box& box, float width, float height) {
  return {std::clamp(box.x1, 0.0f, width), std::clamp(box.y1, 0.0f, height),
          std::clamp(box.x2, 0.0f, width), std::clamp(box.y2, 0.0f, height)};
}

}  // namespace dtn
