#include "tasks/coco_figures/evaluator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtn/core/check.h"
#include "dtn/core/parallel.h"

namespace dtn {
namespace {

// The matches of a category in one image.
struct ClassPart {
  const ImageMatches* image;
  const ClassMatches* matches;
};

// The results of a category in one range of areas.
struct ClassResult {
  std::int64_t truths = 0;
  std::array<double, kOverlapThresholds> recall{};  // with the best 100 detections per image
  std::array<std::array<double, kCocoRecalls>, kOverlapThresholds> precision{};
};

// The results of a category.
struct ClassResults {
  std::array<ClassResult, kAreaRanges> areas;
  // For all sizes, with the best 1 and 10 detections per image.
  std::array<double, kOverlapThresholds> recall1{}, recall10{};
};

// Copies the detections of all images, by falling score. Equal scores keep their order.
std::vector<FoundMatch> sorted_matches(std::span<const ClassPart> parts) {
  std::vector<FoundMatch> all;
  for (const ClassPart& part : parts) {
    const auto found = part.image->found.begin();
    all.insert(all.end(), found + static_cast<std::ptrdiff_t>(part.matches->begin),
               found + static_cast<std::ptrdiff_t>(part.matches->end));
  }
  std::ranges::stable_sort(all, {}, &FoundMatch::order);
  return all;
}

// Returns the precision after each true positive. Only these places count: a false positive lowers
// the precision and keeps the recall, and an ignored detection changes neither.
void precision_of(std::span<const FoundMatch> matches, int bit, std::vector<double>& precision) {
  constexpr double kEpsilon = 0x1p-52;
  precision.clear();
  std::int64_t positives = 0, negatives = 0;
  for (const FoundMatch& match : matches) {
    if ((match.ignored >> bit & 1) != 0) continue;
    if ((match.matched >> bit & 1) == 0) {
      ++negatives;
      continue;
    }
    ++positives;
    precision.push_back(static_cast<double>(positives) /
                        (static_cast<double>(negatives + positives) + kEpsilon));
  }
  for (std::size_t i = precision.size(); i-- > 1;) {
    precision[i - 1] = std::max(precision[i - 1], precision[i]);
  }
}

// Reads the precision at the 101 recalls.
void sample_precision(std::span<const double> precision, std::int64_t truths,
                      std::array<double, kCocoRecalls>& out) {
  std::size_t positives = 0;  // place of the first detection that reaches the recall
  for (int r = 0; r < kCocoRecalls; ++r) {
    // i x 0.01 is not i / 100, and a recall of k / n may lie between the two.
    const double recall = r * 0.01;
    const auto reached = [&](std::size_t tp) {
      return static_cast<double>(tp + 1) / static_cast<double>(truths) >= recall;
    };
    while (positives < precision.size() && !reached(positives)) ++positives;
    out[r] = positives < precision.size() ? precision[positives] : 0;
  }
}

// Returns the recalls of the best `most` detections per image, for all sizes.
std::array<double, kOverlapThresholds> recall_of_best(std::span<const ClassPart> parts,
                                                      std::size_t most, std::int64_t truths) {
  std::array<std::int64_t, kOverlapThresholds> positives{};
  for (const ClassPart& part : parts) {
    const std::size_t count = part.matches->end - part.matches->begin;
    for (std::size_t i = 0; i < std::min(most, count); ++i) {
      const FoundMatch& match = part.image->found[part.matches->begin + i];
      const std::uint64_t true_positive = match.matched & ~match.ignored;
      for (int t = 0; t < kOverlapThresholds; ++t) {
        positives[t] += static_cast<std::int64_t>(true_positive >> FoundMatch::bit(0, t) & 1);
      }
    }
  }
  std::array<double, kOverlapThresholds> recalls{};
  for (int t = 0; t < kOverlapThresholds; ++t) {
    recalls[t] = static_cast<double>(positives[t]) / static_cast<double>(truths);
  }
  return recalls;
}

ClassResults results_of(std::span<const ClassPart> parts) {
  ClassResults results;
  for (const ClassPart& part : parts) {
    for (int a = 0; a < kAreaRanges; ++a) results.areas[a].truths += part.matches->truths[a];
  }
  if (results.areas[0].truths == 0) return results;  // then no other range has one
  const std::vector<FoundMatch> matches = sorted_matches(parts);
  std::vector<double> precision;
  for (int a = 0; a < kAreaRanges; ++a) {
    ClassResult& area = results.areas[a];
    if (area.truths == 0) continue;
    for (int t = 0; t < kOverlapThresholds; ++t) {
      precision_of(matches, FoundMatch::bit(a, t), precision);
      area.recall[t] = static_cast<double>(precision.size()) / static_cast<double>(area.truths);
      sample_precision(precision, area.truths, area.precision[t]);
    }
  }
  results.recall1 = recall_of_best(parts, 1, results.areas[0].truths);
  results.recall10 = recall_of_best(parts, 10, results.areas[0].truths);
  return results;
}

// Mean of the values of several lists; -1 if there is none. Sums of lists are added, so that the
// rounding errors of long sums stay small.
class Mean {
 public:
  void add(std::span<const double> values) {
    sum_ += std::accumulate(values.begin(), values.end(), 0.0);
    count_ += values.size();
  }
  double value() const { return count_ > 0 ? sum_ / static_cast<double>(count_) : -1; }

 private:
  double sum_ = 0;
  std::size_t count_ = 0;
};

// Returns the mean of values_of(class) over the classes with a truth in the range.
template <class ValuesOf>
double mean_over(std::span<const ClassResults> classes, int area, const ValuesOf& values_of) {
  Mean mean;
  for (const ClassResults& c : classes) {
    if (c.areas[area].truths > 0) values_of(c, mean);
  }
  return mean.value();
}

double mean_ap(std::span<const ClassResults> classes, int area, int first = 0,
               int last = kOverlapThresholds - 1) {
  return mean_over(classes, area, [&](const ClassResults& c, Mean& mean) {
    for (int t = first; t <= last; ++t) mean.add(c.areas[area].precision[t]);
  });
}

double mean_recall(std::span<const ClassResults> classes, int area) {
  return mean_over(classes, area,
                   [&](const ClassResults& c, Mean& mean) { mean.add(c.areas[area].recall); });
}

CocoReport summarize(std::span<const ClassResults> classes) {
  constexpr int kAll = 0, kSmall = 1, kMedium = 2, kLarge = 3;
  constexpr int k50 = 0, k75 = 5;  // places of the thresholds 0.5 and 0.75
  const auto best1 = [](const ClassResults& c, Mean& mean) { mean.add(c.recall1); };
  const auto best10 = [](const ClassResults& c, Mean& mean) { mean.add(c.recall10); };
  CocoReport report;
  report.figures = {mean_ap(classes, kAll),           mean_ap(classes, kAll, k50, k50),
                    mean_ap(classes, kAll, k75, k75), mean_ap(classes, kSmall),
                    mean_ap(classes, kMedium),        mean_ap(classes, kLarge),
                    mean_over(classes, kAll, best1),  mean_over(classes, kAll, best10),
                    mean_recall(classes, kAll),       mean_recall(classes, kSmall),
                    mean_recall(classes, kMedium),    mean_recall(classes, kLarge)};
  for (const ClassResults& c : classes) report.class_ap.push_back(mean_ap({&c, 1}, kAll));
  for (int t = 0; t < kOverlapThresholds; ++t) {
    for (int r = 0; r < kCocoRecalls; ++r) {
      report.precision[t][r] = mean_over(classes, kAll, [&](const ClassResults& c, Mean& mean) {
        mean.add({&c.areas[kAll].precision[t][r], 1});
      });
    }
  }
  return report;
}

// Returns the images by ascending id. Throws DataError if two have the same.
std::vector<const ImageMatches*> sorted_images(std::span<const ImageMatches> images) {
  std::vector<const ImageMatches*> sorted;
  for (const ImageMatches& image : images) sorted.push_back(&image);
  const auto id = [](const ImageMatches* image) { return image->image; };
  std::ranges::sort(sorted, {}, id);
  const auto twin = std::ranges::adjacent_find(sorted, {}, id);
  if (twin != sorted.end()) {
    throw DataError(cat("image ", (*twin)->image,
                        " was evaluated twice; give each image of the annotations its own id"));
  }
  return sorted;
}

}  // namespace

double CocoReport::at(std::string_view figure) const {
  const auto at = std::ranges::find(kCocoFigures, figure);
  DTN_CHECK(at != kCocoFigures.end(), "no figure of COCO is called ", figure);
  return figures[static_cast<std::size_t>(at - kCocoFigures.begin())];
}

CocoEvaluator::CocoEvaluator(std::vector<std::int64_t> categories, OverlapKind kind)
    : categories_(std::move(categories)), kind_(kind) {
  std::ranges::sort(categories_);
  const auto twin = std::ranges::adjacent_find(categories_);
  if (twin == categories_.end()) return;
  throw DataError(cat("category ", *twin, " occurs twice; give each category its own id"));
}

std::vector<std::int64_t> CocoEvaluator::packed() const {
  std::vector<std::int64_t> numbers;
  const auto put = [&](auto value) { numbers.push_back(static_cast<std::int64_t>(value)); };
  for (const ImageMatches& image : images_) {
    put(image.image);
    put(image.classes.size());
    for (const ClassMatches& c : image.classes) {
      put(c.category);
      for (std::int64_t truths : c.truths) put(truths);
      put(c.end - c.begin);
      for (std::size_t i = c.begin; i < c.end; ++i) {
        put(image.found[i].order);
        put(image.found[i].matched);
        put(image.found[i].ignored);
      }
    }
  }
  return numbers;
}

void CocoEvaluator::add_packed(std::span<const std::int64_t> numbers) {
  const auto check = [](bool good) {
    DTN_CHECK(good, "the packed matches are damaged, or belong to other categories");
  };
  // Returns the next number, which is from 0 to `max`.
  const auto take = [&](std::size_t max) {
    check(!numbers.empty() && numbers[0] >= 0 && static_cast<std::size_t>(numbers[0]) <= max);
    const auto value = static_cast<std::size_t>(numbers[0]);
    numbers = numbers.subspan(1);
    return value;
  };
  while (!numbers.empty()) {
    ImageMatches image;
    image.image = numbers[0];
    numbers = numbers.subspan(1);
    for (std::size_t classes = take(categories_.size()); classes > 0; --classes) {
      check(!categories_.empty());
      ClassMatches c;
      c.category = static_cast<std::int64_t>(take(categories_.size() - 1));
      for (std::int64_t& truths : c.truths) truths = static_cast<std::int64_t>(take(INT64_MAX));
      const std::size_t count = take(kMaxFoundPerClass);
      check(count <= numbers.size() / 3);
      c.begin = image.found.size();
      c.end = c.begin + count;
      for (std::size_t i = 0; i < count; ++i, numbers = numbers.subspan(3)) {
        const auto word = [&](std::size_t at) { return static_cast<std::uint64_t>(numbers[at]); };
        image.found.push_back({word(0), word(1), word(2)});
      }
      image.classes.push_back(c);
    }
    add(std::move(image));
  }
}

CocoReport CocoEvaluator::report() const {
  std::vector<std::vector<ClassPart>> parts(categories_.size());
  for (const ImageMatches* image : sorted_images(images_)) {
    for (const ClassMatches& c : image->classes) parts[c.category].push_back({image, &c});
  }
  std::vector<ClassResults> classes(categories_.size());
  parallel_for(static_cast<std::int64_t>(classes.size()),
               [&](std::int64_t c) { classes[c] = results_of(parts[c]); });
  return summarize(classes);
}

}  // namespace dtn
