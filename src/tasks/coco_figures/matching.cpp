#include "tasks/coco_figures/matching.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dtn/core/check.h"
#include "tasks/coco_figures/overlap.h"

namespace dtn {
namespace {

// Throws DataError if a value is not finite.
void check_finite(std::int64_t image, std::int64_t category, const char* owner, const CocoBox& box,
                  const char* name, double value) {
  const bool finite_box = std::ranges::all_of(box, [](double v) { return std::isfinite(v); });
  if (finite_box && std::isfinite(value)) return;
  throw DataError(cat("image ", image, ": ", owner, " of category ", category, " has a ",
                      finite_box ? name : "box",
                      " that is not finite; correct it or leave it out"));
}

// An object, and the index of its category.
template <class Object>
struct Entry {
  std::int64_t category;
  const Object* object;
};

// Returns the objects of known categories, grouped by ascending category in their order.
template <class Object>
std::vector<Entry<Object>> group_by_category(std::span<const Object> objects,
                                             std::span<const std::int64_t> categories) {
  std::vector<Entry<Object>> entries;
  entries.reserve(objects.size());
  for (const Object& object : objects) {
    const auto at = std::ranges::lower_bound(categories, object.category);
    if (at == categories.end() || *at != object.category) continue;
    entries.push_back({at - categories.begin(), &object});
  }
  std::ranges::stable_sort(entries, {}, &Entry<Object>::category);
  return entries;
}

// Moves the objects of a category from the front of `entries` into `objects`.
template <class Object>
void take_category(std::span<const Entry<Object>>& entries, std::int64_t category,
                   std::vector<const Object*>& objects) {
  objects.clear();
  while (!entries.empty() && entries.front().category == category) {
    objects.push_back(entries.front().object);
    entries = entries.subspan(1);
  }
}

// Keeps the best detections, by falling score.
void keep_best(std::vector<const FoundObject*>& found) {
  std::ranges::stable_sort(found, {}, [](const FoundObject* f) { return falling_order(f->score); });
  if (found.size() > kMaxFoundPerClass) found.resize(kMaxFoundPerClass);
}

// A truth that overlaps a detection by at least the lowest threshold.
struct Candidate {
  std::size_t truth;
  double overlap;
};

// Matches the objects of one category. The vectors keep their memory from category to category.
class ClassMatcher {
 public:
  // `found` is by falling score. Appends to `to.found` and returns the entry of to.classes.
  ClassMatches match(std::int64_t image, OverlapKind kind,
                     std::span<const FoundObject* const> found,
                     std::span<const TruthObject* const> truths, ImageMatches& to) {
    find_candidates(overlaps_of(image, kind, found, truths), found.size());
    ClassMatches result;
    result.begin = to.found.size();
    found_areas_.clear();
    for (const FoundObject* f : found) {
      to.found.push_back({falling_order(f->score), 0, 0});
      found_areas_.push_back(found_area(*f, kind));
    }
    result.end = to.found.size();
    const std::span<FoundMatch> matches = std::span(to.found).subspan(result.begin);
    for (int area = 0; area < kAreaRanges; ++area) {
      result.truths[area] = order_candidates(truths, kCocoAreas[area]);
      for (int threshold = 0; threshold < kOverlapThresholds; ++threshold) {
        match_at(truths, area, threshold, matches);
      }
      ignore_unmatched(area, matches);
    }
    return result;
  }

 private:
  static constexpr auto kThresholds = overlap_thresholds();
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::span<Candidate> candidates_of(std::size_t detection) {
    return std::span(candidates_)
        .subspan(first_[detection], first_[detection + 1] - first_[detection]);
  }

  // The other truths can hold no detection, because no bar is below the lowest threshold.
  void find_candidates(const OverlapTable& overlaps, std::size_t detections) {
    candidates_.clear();
    first_.assign(1, 0);
    for (std::size_t d = 0; d < detections; ++d) {
      const std::span<const double> row = overlaps.row(d);
      for (std::size_t t = 0; t < row.size(); ++t) {
        if (row[t] >= kThresholds.front()) candidates_.push_back({t, row[t]});
      }
      first_.push_back(candidates_.size());
    }
  }

  // Moves the ignored truths of each detection behind its others, and keeps the order of both.
  // Returns the number of truths that are not ignored.
  std::int64_t order_candidates(std::span<const TruthObject* const> truths,
                                const AreaRange& range) {
    ignored_.clear();
    for (const TruthObject* truth : truths) {
      ignored_.push_back(truth->crowd || !range.contains(truth->area));
    }
    for (std::size_t d = 0; d + 1 < first_.size(); ++d) {
      const auto key = [&](const Candidate& c) {
        return std::pair(ignored_[c.truth] != 0, c.truth);
      };
      if (candidates_of(d).size() > 1) std::ranges::sort(candidates_of(d), {}, key);
    }
    return std::ranges::count(ignored_, char{0});
  }

  // Returns the truth of a detection, or kNone.
  std::size_t choose(std::span<const Candidate> candidates,
                     std::span<const TruthObject* const> truths, double bar) const {
    std::size_t held = kNone;
    for (const Candidate& candidate : candidates) {
      const std::size_t truth = candidate.truth;
      if (taken_[truth] && !truths[truth]->crowd) continue;
      if (held != kNone && !ignored_[held] && ignored_[truth]) break;
      if (candidate.overlap < bar) continue;
      bar = candidate.overlap;
      held = truth;
    }
    return held;
  }

  void match_at(std::span<const TruthObject* const> truths, int area, int threshold,
                std::span<FoundMatch> matches) {
    taken_.assign(truths.size(), 0);
    const std::uint64_t bit = std::uint64_t{1} << FoundMatch::bit(area, threshold);
    for (std::size_t d = 0; d < matches.size(); ++d) {
      const std::size_t truth = choose(candidates_of(d), truths, kThresholds[threshold]);
      if (truth == kNone) continue;
      taken_[truth] = 1;
      matches[d].matched |= bit;
      if (ignored_[truth]) matches[d].ignored |= bit;
    }
  }

  // Ignores detections without a truth whose own area is outside the range.
  void ignore_unmatched(int area, std::span<FoundMatch> matches) const {
    constexpr std::uint64_t kAll = (std::uint64_t{1} << kOverlapThresholds) - 1;
    const std::uint64_t bits = kAll << FoundMatch::bit(area, 0);
    for (std::size_t d = 0; d < matches.size(); ++d) {
      if (kCocoAreas[area].contains(found_areas_[d])) continue;
      matches[d].ignored |= bits & ~matches[d].matched;
    }
  }

  std::vector<Candidate> candidates_;  // of all detections
  std::vector<std::size_t> first_;     // first candidate of each detection, and the end
  std::vector<double> found_areas_;    // [detections]
  std::vector<char> ignored_, taken_;  // [truths]
};

}  // namespace

std::uint64_t falling_order(double score) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  std::uint64_t bits = std::bit_cast<std::uint64_t>(score);
  if (bits == kSign) bits = 0;  // -0 equals 0
  // A larger positive number has larger bits, a larger negative one has smaller bits.
  return (bits & kSign) != 0 ? bits : ~(bits | kSign);
}

ImageMatches match_image(std::int64_t image, std::span<const std::int64_t> categories,
                         OverlapKind kind, std::span<const TruthObject> truths,
                         std::span<const FoundObject> found) {
  for (const TruthObject& t : truths) {
    check_finite(image, t.category, "a truth", t.box, "area", t.area);
  }
  for (const FoundObject& f : found) {
    check_finite(image, f.category, "a detection", f.box, "score", f.score);
  }
  const auto all_truths = group_by_category(truths, categories);
  const auto all_found = group_by_category(found, categories);
  std::span<const Entry<TruthObject>> truths_left(all_truths);
  std::span<const Entry<FoundObject>> found_left(all_found);
  std::vector<const TruthObject*> class_truths;
  std::vector<const FoundObject*> class_found;
  ClassMatcher matcher;
  ImageMatches result;
  result.image = image;
  result.found.reserve(found_left.size());
  while (!truths_left.empty() || !found_left.empty()) {
    const auto next = [](const auto& left) {
      return left.empty() ? INT64_MAX : left.front().category;
    };
    const std::int64_t category = std::min(next(truths_left), next(found_left));
    take_category(truths_left, category, class_truths);
    take_category(found_left, category, class_found);
    keep_best(class_found);
    result.classes.push_back(matcher.match(image, kind, class_found, class_truths, result));
    result.classes.back().category = category;
  }
  return result;
}

}  // namespace dtn
