// Matches the detections of one image with its truths, by COCO's rules. Images do not depend on
// each other, so that they can be matched in any order, on any thread and rank.
//
// For each category, range of areas and overlap threshold:
// - Detections come by falling score; equal scores keep their order. The first 100 count.
// - A truth is ignored if it is a crowd, or if its area is outside the range.
// - Truths keep their order, but ignored ones come last.
// - A detection scans the truths with a bar that begins at the threshold. It skips a truth that
//   is taken, unless that is a crowd, and a truth whose overlap is below the bar. Otherwise it
//   holds that truth and raises the bar to the overlap, so an equal overlap wins if it is later.
//   The scan stops at the first ignored truth if it holds one that is not ignored.
// - A detection is ignored if its truth is. It is also ignored if it has no truth, and its own area
//   is outside the range.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tasks/coco_figures/objects.h"

namespace dtn {

inline constexpr int kOverlapThresholds = 10, kAreaRanges = 4;
inline constexpr std::size_t kMaxFoundPerClass = 100;  // per image and category

// Overlap thresholds 0.5, 0.55, ..., 0.95, by the operations of COCO's tool. Its 0.9 is one bit
// below the literal.
constexpr std::array<double, kOverlapThresholds> overlap_thresholds() {
  std::array<double, kOverlapThresholds> thresholds{};
  for (int i = 0; i < kOverlapThresholds; ++i) thresholds[i] = 0.5 + i * ((0.95 - 0.5) / 9);
  thresholds.back() = 0.95;
  return thresholds;
}

// A range of areas in pixels, both ends inclusive.
struct AreaRange {
  double min, max;
  constexpr bool contains(double area) const { return min <= area && area <= max; }
};

// All, small, medium and large objects. An area of 32^2 or 96^2 belongs to two of the ranges.
inline constexpr std::array<AreaRange, kAreaRanges> kCocoAreas = {
    {{0, 1e10}, {0, 32. * 32}, {32. * 32, 96. * 96}, {96. * 96, 1e10}}};

// The fate of a detection in each range of areas and at each threshold.
struct FoundMatch {
  // Key of the score: a higher score has a smaller key, and equal scores have equal keys.
  std::uint64_t order = 0;
  // Bit 10 a + t belongs to range a and threshold t. A detection that is not ignored is a true
  // positive if it is matched, and otherwise a false positive.
  std::uint64_t matched = 0, ignored = 0;

  static constexpr int bit(int area, int threshold) {
    return kOverlapThresholds * area + threshold;
  }
  bool operator==(const FoundMatch&) const = default;
};

// The detections of a category in one image: elements [begin, end) of ImageMatches::found, by
// falling score.
struct ClassMatches {
  std::int64_t category = 0;                       // index into the evaluator's categories
  std::array<std::int64_t, kAreaRanges> truths{};  // those not ignored, per range
  std::size_t begin = 0, end = 0;
};

// The result of matching one image.
struct ImageMatches {
  std::int64_t image = 0;  // id
  std::vector<ClassMatches> classes;
  std::vector<FoundMatch> found;
};

// Returns the key of a finite score for FoundMatch::order.
std::uint64_t falling_order(double score);

// Matches one image. `categories` are ids in ascending order; objects of other categories are
// dropped. Throws DataError, which says `image`, for a box, an area or a score that is not finite,
// and for masks of different sizes.
ImageMatches match_image(std::int64_t image, std::span<const std::int64_t> categories,
                         OverlapKind kind, std::span<const TruthObject> truths,
                         std::span<const FoundObject> found);

}  // namespace dtn
