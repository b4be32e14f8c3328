// COCO's rules for matching the detections of one image with its truths.
#include "tasks/coco_figures/matching.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "dtn/core/check.h"
#include "tasks/coco_figures/overlap.h"
#include "texts.h"
#include "unit/coco_figures/objects.h"

namespace dtn {
namespace {

using namespace dtn::test;

constexpr int kAll = 0, kSmall = 1, kMedium = 2, kLarge = 3;
constexpr CocoBox kTen{0, 0, 10, 10};

using Truths = std::vector<TruthObject>;
using Found = std::vector<FoundObject>;

// Matches an image with category 1 alone.
ImageMatches match_one(const Truths& truths, const Found& found,
                       OverlapKind kind = OverlapKind::kBoxes) {
  const std::vector<std::int64_t> categories{1};
  return match_image(7, categories, kind, truths, found);
}

// The fate of each detection by falling score: T(rue), F(alse) or I(gnored).
std::string fates(const ImageMatches& image, int area = kAll, int threshold = 0) {
  std::string text;
  for (const FoundMatch& match : image.found) {
    const int bit = FoundMatch::bit(area, threshold);
    text += (match.ignored >> bit & 1) != 0 ? 'I' : (match.matched >> bit & 1) != 0 ? 'T' : 'F';
  }
  return text;
}

// A box of kTen's height that has this overlap with kTen.
FoundObject covering(double overlap, double score) {
  return found(1, {0, 0, 10 * overlap, 10}, score);
}

TEST(CocoOverlap, IsIntersectionOverUnion) {
  EXPECT_DOUBLE_EQ(box_overlap({0, 0, 4, 2}, {2, 1, 4, 3}, false), 2. / (8 + 12 - 2));
  EXPECT_EQ(box_overlap(kTen, kTen, false), 1);
  EXPECT_EQ(box_overlap({0, 0, 4, 4}, {4, 0, 4, 4}, false), 0) << "boxes that only touch";
  EXPECT_EQ(box_overlap({0, 0, 4, 4}, {0, 5, 4, 4}, false), 0);
  EXPECT_EQ(box_overlap({1, 1, 0, 0}, kTen, true), 0) << "a detection without area";
}

TEST(CocoOverlap, OfCrowdDividesByDetection) {
  EXPECT_EQ(box_overlap({0, 0, 4, 2}, {2, 0, 100, 100}, true), 0.5);
  EXPECT_EQ(box_overlap({3, 3, 4, 2}, {2, 0, 100, 100}, true), 1);
}

TEST(CocoOverlap, CountsPixelsOfMasks) {
  const std::uint8_t left[] = {1, 1, 0, 1, 1, 0}, right[] = {0, 1, 1, 0, 0, 1};
  TruthObject truth = test::truth(1, {});
  truth.mask = rle_of_mask(left, 2, 3);
  FoundObject found = test::found(1, {}, 1);
  found.mask = rle_of_mask(right, 2, 3);
  const FoundObject* f = &found;
  const TruthObject* t = &truth;
  const auto overlap = [&] {
    return overlaps_of(7, OverlapKind::kMasks, {&f, 1}, {&t, 1}).values[0];
  };
  EXPECT_EQ(overlap(), 1. / 6);
  truth.crowd = true;
  EXPECT_EQ(overlap(), 1. / 3);
  EXPECT_EQ(found_area(found, OverlapKind::kMasks), 3);
  found.box = {0, 0, 2, 5};
  EXPECT_EQ(found_area(found, OverlapKind::kBoxes), 10);
  truth.mask = rle_of_mask(left, 3, 2);
  expect_error<DataError>(overlap, {"image 7", "3 x 2 pixels", "2 x 3;"});
}

TEST(CocoThresholds, EqualThoseOfTheTool) {
  constexpr auto kThresholds = overlap_thresholds();
  const double expected[] = {0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.8999999999999999, 0.95};
  for (int t = 0; t < kOverlapThresholds; ++t) EXPECT_EQ(kThresholds[t], expected[t]) << t;
}

TEST(CocoMatching, ThresholdIsInclusive) {
  // 0.95 exactly; one bit less of width is below.
  const double below = std::nextafter(19., 0);
  const Truths truths{truth(1, {0, 0, 20, 1})};
  EXPECT_EQ(fates(match_one(truths, {found(1, {0, 0, 19, 1}, 1)}), kAll, 9), "T");
  EXPECT_EQ(fates(match_one(truths, {found(1, {0, 0, below, 1}, 1)}), kAll, 9), "F");
  EXPECT_EQ(fates(match_one(truths, {found(1, {0, 0, below, 1}, 1)}), kAll, 8), "T");
  EXPECT_EQ(fates(match_one({truth(1, kTen)}, {covering(0.5, 1)})), "T");
  EXPECT_EQ(fates(match_one({truth(1, kTen)}, {covering(0.4999, 1)})), "F");
}

TEST(CocoMatching, TruthIsFoundOnce) {
  // The higher score comes first, whatever the order in the file and the overlaps.
  const ImageMatches image =
      match_one({truth(1, kTen)}, {covering(1, 0.3), covering(0.8, 0.9), covering(0.6, 0.5)});
  EXPECT_EQ(fates(image), "TFF");
  EXPECT_EQ(fates(image, kAll, 6), "TFF") << "0.8";
  EXPECT_EQ(fates(image, kAll, 7), "FFT") << "0.85: only the last one reaches it";
  EXPECT_EQ(image.classes[0].truths[kAll], 1);
}

TEST(CocoMatching, EqualScoresKeepTheirOrder) {
  // At the threshold 0.65, only the second one is a match.
  const Truths truths{truth(1, kTen)};
  EXPECT_EQ(fates(match_one(truths, {covering(0.6, 0.5), covering(1, 0.5)}), kAll, 3), "FT");
  EXPECT_EQ(fates(match_one(truths, {covering(0.6, -0.0), covering(1, 0.0)}), kAll, 3), "FT");
  EXPECT_EQ(fates(match_one(truths, {covering(0.6, 0.5), covering(1, 0.5)})), "TF");
}

TEST(CocoMatching, EqualOverlapPrefersLaterTruth) {
  // The first detection overlaps both truths by 0.6; the second one fits only one of them.
  const Truths truths{truth(1, {0, 0, 6, 10}), truth(1, {4, 0, 6, 10})};
  const FoundObject both = found(1, kTen, 0.9);
  EXPECT_EQ(fates(match_one(truths, {both, found(1, {0, 0, 6, 10}, 0.5)})), "TT");
  EXPECT_EQ(fates(match_one(truths, {both, found(1, {4, 0, 6, 10}, 0.5)})), "TF");
}

TEST(CocoMatching, BestOverlapWins) {
  const Truths truths{truth(1, {0, 0, 9, 10}), truth(1, {0, 0, 6, 10})};
  // The later truth overlaps less and stays free.
  EXPECT_EQ(fates(match_one(truths, {found(1, kTen, 0.9), found(1, {0, 0, 6, 10}, 0.5)})), "TT");
}

TEST(CocoMatching, CrowdIsIgnoredAndFoundManyTimes) {
  const ImageMatches image = match_one(
      {truth(1, {0, 0, 50, 50}, true)},
      {found(1, {0, 0, 5, 5}, 0.9), found(1, {5, 5, 5, 5}, 0.8), found(1, {48, 0, 5, 5}, 0.7)});
  EXPECT_EQ(fates(image), "IIF");
  EXPECT_EQ(image.classes[0].truths[kAll], 0);
}

TEST(CocoMatching, StopsAtFirstIgnoredTruth) {
  // The crowd comes first in the file and overlaps more, but is scanned last.
  const Truths truths{truth(1, {0, 0, 50, 50}, true), truth(1, {0, 0, 10, 6})};
  EXPECT_EQ(fates(match_one(truths, {found(1, kTen, 0.9)})), "T");
  EXPECT_EQ(fates(match_one(truths, {found(1, kTen, 0.9)}), kAll, 3), "I")
      << "0.65: only the crowd";
  // The second detection has no truth of its own left.
  EXPECT_EQ(fates(match_one(truths, {found(1, kTen, 0.9), found(1, kTen, 0.8)})), "TI");
}

TEST(CocoMatching, BestIgnoredTruthIsTaken) {
  // Both truths are ignored among large objects. The first detection overlaps the second truth
  // more; the second detection fits only the first truth.
  const Truths truths{truth_of_area(1, {0, 0, 100, 100}, 1), truth_of_area(1, {0, 0, 100, 160}, 1)};
  const Found two{found(1, {0, 0, 100, 150}, 0.9), found(1, {0, -20, 100, 100}, 0.8)};
  EXPECT_EQ(fates(match_one(truths, two), kLarge), "II");
}

TEST(CocoMatching, IgnoredTruthIsTakenOnce) {
  const Found two{found(1, {0, 0, 96, 96}, 0.9), found(1, {0, 0, 96, 96}, 0.8)};
  const ImageMatches image = match_one({truth_of_area(1, {0, 0, 96, 96}, 100)}, two);
  EXPECT_EQ(fates(image, kLarge), "IF");
  EXPECT_EQ(fates(image, kMedium), "IF");
  EXPECT_EQ(fates(image, kSmall), "TI") << "the second one for its own area";
}

TEST(CocoMatching, BordersBelongToBothRanges) {
  const auto truths_of = [](double area) {
    return match_one({truth_of_area(1, kTen, area)}, {}).classes[0].truths;
  };
  using Counts = std::array<std::int64_t, kAreaRanges>;
  EXPECT_EQ(truths_of(0), (Counts{1, 1, 0, 0}));
  EXPECT_EQ(truths_of(1024), (Counts{1, 1, 1, 0}));
  EXPECT_EQ(truths_of(1024.5), (Counts{1, 0, 1, 0}));
  EXPECT_EQ(truths_of(9216), (Counts{1, 0, 1, 1}));
  EXPECT_EQ(truths_of(1e10), (Counts{1, 0, 0, 1}));
  EXPECT_EQ(truths_of(1.1e10), (Counts{0, 0, 0, 0}));
  EXPECT_EQ(truths_of(-1), (Counts{0, 0, 0, 0}));
  const ImageMatches image =
      match_one({}, {found(1, {0, 0, 32, 32}, 1), found(1, {0, 0, 96, 96}, 0)});
  EXPECT_EQ(fates(image, kAll), "FF");
  EXPECT_EQ(fates(image, kSmall), "FI");
  EXPECT_EQ(fates(image, kMedium), "FF");
  EXPECT_EQ(fates(image, kLarge), "IF");
}

TEST(CocoMatching, KeepsBest100PerCategory) {
  Found all;
  for (int i = 0; i < 130; ++i) all.push_back(found(1, {20. * i, 0, 10, 10}, i));
  for (int i = 0; i < 3; ++i) all.push_back(found(2, {20. * i, 0, 10, 10}, 0.5));
  const Truths truths{truth(1, {20. * 29, 0, 10, 10}), truth(1, {20. * 30, 0, 10, 10})};
  const std::vector<std::int64_t> categories{1, 2};
  const ImageMatches image = match_image(7, categories, OverlapKind::kBoxes, truths, all);
  ASSERT_EQ(image.classes.size(), 2u);
  EXPECT_EQ(image.classes[0].end - image.classes[0].begin, 100u);
  EXPECT_EQ(image.classes[1].end - image.classes[1].begin, 3u);
  std::string expected(99, 'F');
  expected += "TFFF";  // truth 30 is the last one that counts
  EXPECT_EQ(fates(image), expected);
}

TEST(CocoMatching, CategoriesAreApartAndUnknownOnesDropped) {
  const std::vector<std::int64_t> categories{-4, 90};
  const ImageMatches image = match_image(
      7, categories, OverlapKind::kBoxes, Truths{truth(90, kTen), truth(5, kTen), truth(91, kTen)},
      Found{found(5, kTen, 0.5), found(90, kTen, 0.5), found(-4, kTen, 0.5)});
  ASSERT_EQ(image.classes.size(), 2u);
  EXPECT_EQ(image.image, 7);
  EXPECT_EQ(image.classes[0].category, 0);
  EXPECT_EQ(image.classes[0].truths[kAll], 0);
  EXPECT_EQ(image.classes[1].category, 1);
  EXPECT_EQ(image.classes[1].truths[kAll], 1);
  EXPECT_EQ(fates(image), "FT");
}

TEST(CocoMatching, MasksDecideWithoutBoxes) {
  const std::uint8_t picture[] = {1, 1, 1, 0};
  TruthObject t = truth(1, {0, 0, 1, 1});
  t.mask = rle_of_mask(picture, 2, 2);
  FoundObject f = found(1, {50, 50, 200, 200}, 1);
  f.mask = t.mask;
  EXPECT_EQ(fates(match_one({t}, {f}, OverlapKind::kMasks)), "T");
  EXPECT_EQ(fates(match_one({t}, {f})), "F");
  // Without a truth, the area of the mask decides, not that of the box.
  EXPECT_EQ(fates(match_one({}, {f}, OverlapKind::kMasks), kSmall), "F");
  EXPECT_EQ(fates(match_one({}, {f}), kSmall), "I");
}

TEST(CocoMatching, RefusesValuesThatAreNotFinite) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  expect_error<DataError>([&] { match_one({}, {found(1, kTen, nan)}); },
                          {"image 7", "detection", "category 1", "score", "not finite"});
  expect_error<DataError>(
      [&] {
        match_one({}, {found(1, {0, infinity, 1, 1}, 1)});
      },
      {"image 7", "detection", "a box"});
  expect_error<DataError>([&] { match_one({truth_of_area(1, kTen, nan)}, {}); },
                          {"image 7", "truth", "area"});
}

TEST(CocoOrder, FallsWithScore) {
  const double scores[] = {1e300, 1,     std::nextafter(1, 0), 1e-310, 5e-324, 0, -5e-324,
                           -0.5,  -1e300};
  for (std::size_t i = 1; i < std::size(scores); ++i) {
    EXPECT_LT(falling_order(scores[i - 1]), falling_order(scores[i])) << scores[i];
  }
  EXPECT_EQ(falling_order(-0.0), falling_order(0.0));
}

}  // namespace
}  // namespace dtn
