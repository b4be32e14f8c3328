#include "tasks/boxes/nms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtn/core/check.h"

namespace dtn {
namespace {

// Returns the largest float that is not above the threshold: a float is above it exactly if it is
// above the threshold.
float rounded_down(double threshold) {
  const auto nearest = static_cast<float>(threshold);
  return nearest > threshold ? std::nextafter(nearest, -INFINITY) : nearest;
}

std::vector<std::int64_t> by_falling_score(std::span<const float> scores) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto key = [&](std::int64_t i) {
    const float score = scores[static_cast<std::size_t>(i)];
    return std::isnan(score) ? -INFINITY : score;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return key(a) > key(b); });
  return order;
}

// The boxes of one class that stayed: [first, first + count) of the columns of all classes.
struct KeptRange {
  std::size_t first = 0, count = 0;
};

// Room for the boxes of each class, one class after another.
std::vector<KeptRange> ranges_of(std::span<const std::int32_t> classes) {
  std::vector<KeptRange> ranges;
  for (std::int32_t c : classes) {
    DTN_CHECK(c >= 0, "nms: class ", c, " is below 0");
    const auto next = static_cast<std::size_t>(c) + 1;
    if (ranges.size() < next + 1) ranges.resize(next + 1);
    ++ranges[next].first;
  }
  for (std::size_t i = 1; i < ranges.size(); ++i) ranges[i].first += ranges[i - 1].first;
  return ranges;
}

void put(BoxColumns& columns, std::size_t at, const Box& box) {
  columns.x1[at] = box.x1, columns.y1[at] = box.y1;
  columns.x2[at] = box.x2, columns.y2[at] = box.y2;
  columns.area[at] = area_of(box);
}

}  // namespace

std::vector<std::int64_t> nms_by_class(std::span<const Box> boxes, std::span<const float> scores,
                                       std::span<const std::int32_t> classes, double threshold,
                                       std::int64_t most) {
  DTN_CHECK(scores.size() == boxes.size() && classes.size() == boxes.size(), "nms: ", boxes.size(),
            " boxes, ", scores.size(), " scores, ", classes.size(), " classes");
  const float limit = rounded_down(threshold);
  std::vector<KeptRange> ranges = ranges_of(classes);
  BoxColumns columns(boxes);  // overwritten by the boxes that stay
  std::vector<std::int64_t> kept;
  for (std::int64_t i : by_falling_score(scores)) {
    if (static_cast<std::int64_t>(kept.size()) >= most) break;
    const Box& box = boxes[static_cast<std::size_t>(i)];
    KeptRange& range = ranges[static_cast<std::size_t>(classes[static_cast<std::size_t>(i)])];
    if (overlaps_any(box, columns, range.first, range.count, limit)) continue;
    put(columns, range.first + range.count++, box);
    kept.push_back(i);
  }
  return kept;
}

std::vector<std::int64_t> nms(std::span<const Box> boxes, std::span<const float> scores,
                              double threshold, std::int64_t most) {
  const std::vector<std::int32_t> one(boxes.size(), 0);
  return nms_by_class(boxes, scores, one, threshold, most);
}

}  // namespace dtn
