#include "tasks/boxes/assignment.h"

#include <algorithm>

#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr std::size_t kGroup = 64;  // neighbouring boxes that are skipped or compared together

// The smallest box around the boxes of each group. A truth that does not touch it has an IoU of 0
// with all of them.
std::vector<Box> group_bounds(std::span<const Box> boxes) {
  std::vector<Box> bounds;
  for (std::size_t first = 0; first < boxes.size(); first += kGroup) {
    Box all = boxes[first];
    for (const Box& b : boxes.subspan(first, std::min(kGroup, boxes.size() - first))) {
      all = {std::min(all.x1, b.x1), std::min(all.y1, b.y1), std::max(all.x2, b.x2),
             std::max(all.y2, b.y2)};
    }
    bounds.push_back(all);
  }
  return bounds;
}

bool touches(const Box& a, const Box& b) {
  return a.x1 < b.x2 && b.x1 < a.x2 && a.y1 < b.y2 && b.y1 < a.y2;
}

// The best IoU of a truth over the boxes, and the boxes that have it.
struct BestBoxes {
  float iou = 0;
  std::vector<std::int64_t> boxes;  // not listed for an IoU of 0

  void add(std::size_t box, float of) {
    if (of < iou || of == 0) return;
    if (of > iou) boxes.clear();
    iou = of;
    boxes.push_back(static_cast<std::int64_t>(box));
  }
};

class Assigner {
 public:
  Assigner(std::span<const Box> boxes, std::span<const std::uint8_t> counts)
      : columns_(boxes),
        bounds_(group_bounds(boxes)),
        counts_(counts),
        best_(boxes.size(), 0.0f),
        truth_(boxes.size(), 0) {}

  // Compares a truth with all boxes.
  BestBoxes add_truth(const Box& truth, std::int32_t index) {
    BestBoxes best;
    float overlap[kGroup];
    for (std::size_t g = 0; g < bounds_.size(); ++g) {
      if (!touches(truth, bounds_[g])) continue;
      const std::size_t first = g * kGroup, count = std::min(kGroup, best_.size() - first);
      ious_with(truth, columns_, first, count, overlap);
      for (std::size_t k = 0; k < count; ++k) {
        const std::size_t i = first + k;
        if (overlap[k] == 0 || !box_counts(i)) continue;
        best.add(i, overlap[k]);
        if (overlap[k] > best_[i]) best_[i] = overlap[k], truth_[i] = index;
      }
    }
    return best;
  }

  // Applies the two thresholds.
  std::vector<std::int32_t> by_threshold(const AssignmentRule& rule) const {
    std::vector<std::int32_t> result(best_.size(), kIgnoredBox);
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (!box_counts(i)) continue;
      if (best_[i] < rule.negative) result[i] = kBackgroundBox;
      if (best_[i] >= rule.positive) result[i] = truth_[i];
    }
    return result;
  }

  bool box_counts(std::size_t i) const { return counts_.empty() || counts_[i] != 0; }

 private:
  BoxColumns columns_;
  std::vector<Box> bounds_;
  std::span<const std::uint8_t> counts_;
  std::vector<float> best_;          // best IoU of a box
  std::vector<std::int32_t> truth_;  // the first truth that has it
};

}  // namespace

std::vector<std::int32_t> assign_boxes(std::span<const Box> boxes, std::span<const Box> truths,
                                       const AssignmentRule& rule,
                                       std::span<const std::uint8_t> counts) {
  DTN_CHECK(counts.empty() || counts.size() == boxes.size(), "assign_boxes: ", counts.size(),
            " counts for ", boxes.size(), " boxes");
  DTN_CHECK(0 < rule.negative && rule.negative <= rule.positive,
            "assign_boxes: the thresholds must be 0 < negative <= positive, not ", rule.negative,
            " and ", rule.positive);
  Assigner assigner(boxes, counts);
  std::vector<BestBoxes> best;
  for (std::size_t t = 0; t < truths.size(); ++t) {
    best.push_back(assigner.add_truth(truths[t], static_cast<std::int32_t>(t)));
  }
  std::vector<std::int32_t> result = assigner.by_threshold(rule);
  for (std::size_t t = 0; t < truths.size(); ++t) {
    if (best[t].iou < rule.least_forced) continue;
    const auto index = static_cast<std::int32_t>(t);
    if (best[t].iou > 0) {
      for (std::int64_t i : best[t].boxes) result[static_cast<std::size_t>(i)] = index;
      continue;
    }
    // The truth touches no box, so all boxes have its best IoU, 0.
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (assigner.box_counts(i)) result[i] = index;
    }
  }
  return result;
}

}  // namespace dtn
