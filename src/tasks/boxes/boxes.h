// Boxes in pixels, and their intersection over union (IoU).
//
// Ties of IoUs decide which anchors belong to a truth, so the arithmetic is fixed: float32, in one
// order, without contraction:
//    inter = max(min(x2) - max(x1), 0) max(min(y2) - max(y1), 0)
//    IoU = inter / max((area of a + area of b) - inter, 1e-6)
// The functions are compiled once, in a file without contraction, and are not inlined elsewhere. So
// the bits do not depend on the caller, the number of threads, or the instruction set.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dtn {

struct Box {
  float x1, y1, x2, y2;
  bool operator==(const Box&) const = default;
};

// Boxes as columns, with their areas, for loops over many of them.
struct BoxColumns {
  std::vector<float> x1, y1, x2, y2, area;

  BoxColumns() = default;
  explicit BoxColumns(std::span<const Box> boxes);
  std::size_t size() const { return x1.size(); }
};

// Returns width x height.
float area_of(const Box& box);

// Returns the IoU of two boxes. iou(a, b) = iou(b, a).
float iou(const Box& a, const Box& b);

// Writes the IoU of `box` with boxes first .. first + count - 1 of `others` to `to`. The bits are
// those of iou().
void ious_with(const Box& box, const BoxColumns& others, std::size_t first, std::size_t count,
               float* to);

// Returns true if the IoU of `box` with one of these boxes is above the threshold.
bool overlaps_any(const Box& box, const BoxColumns& others, std::size_t first, std::size_t count,
                  float threshold);

// Returns the box cut at an image of this size: x in [0, width], y in [0, height].
Box clip_box(const Box& box, float width, float height);

}  // namespace dtn
