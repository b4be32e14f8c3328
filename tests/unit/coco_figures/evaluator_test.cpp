// COCO's figures from the matches of images.
#include "tasks/coco_figures/evaluator.h"

#include <gtest/gtest.h>

#include <cstring>

#include "dtn/core/check.h"
#include "dtn/core/parallel.h"
#include "dtn/core/philox.h"
#include "texts.h"
#include "unit/coco_figures/objects.h"

namespace dtn {
namespace {

using namespace dtn::test;

using Truths = std::vector<TruthObject>;
using Found = std::vector<FoundObject>;

constexpr CocoBox kTen{0, 0, 10, 10};
constexpr CocoBox kElsewhere{500, 500, 10, 10};

CocoEvaluator boxes(std::vector<std::int64_t> categories = {1}) {
  return CocoEvaluator(std::move(categories), OverlapKind::kBoxes);
}

// Truths that do not touch each other.
CocoBox place(int i) { return {20. * i, 0, 10, 10}; }

TEST(CocoEvaluator, WithoutTruthsHasNoFigures) {
  CocoEvaluator evaluator = boxes({1, 2});
  EXPECT_EQ(evaluator.report().at("AP"), -1);
  evaluator.add(3, {}, Found{found(1, kTen, 1)});
  evaluator.add(4, Truths{truth(1, kTen, true)}, Found{found(1, kTen, 1)});
  const CocoReport report = evaluator.report();
  for (double figure : report.figures) EXPECT_EQ(figure, -1);
  EXPECT_EQ(report.class_ap, (std::vector<double>{-1, -1}));
  EXPECT_EQ(report.precision[3][50], -1);
}

TEST(CocoEvaluator, TruthsWithoutDetectionsAreZero) {
  CocoEvaluator evaluator = boxes({2, 1});
  evaluator.add(3, Truths{truth(2, kTen)}, {});
  const CocoReport report = evaluator.report();
  EXPECT_EQ(report.at("AP"), 0);
  EXPECT_EQ(report.at("APs"), 0);
  EXPECT_EQ(report.at("APm"), -1);
  EXPECT_EQ(report.at("AR1"), 0);
  EXPECT_EQ(report.at("ARl"), -1);
  EXPECT_EQ(evaluator.categories(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(report.class_ap, (std::vector<double>{-1, 0}));
}

TEST(CocoEvaluator, FiguresOfPerfectDetections) {
  CocoEvaluator evaluator = boxes();
  Truths truths;
  Found all;
  for (double side : {10., 50., 100., 200.}) {
    truths.push_back(truth(1, {300 * side, 0, side, side}));
    all.push_back(found(1, truths.back().box, 0.5));
  }
  evaluator.add(3, truths, all);
  const CocoReport report = evaluator.report();
  for (std::string_view name : {"AP", "AP50", "AP75", "APs", "APm", "APl"}) {
    EXPECT_NEAR(report.at(name), 1, 1e-15) << name;
  }
  for (std::string_view name : {"AR10", "AR100", "ARs", "ARm", "ARl"}) {
    EXPECT_EQ(report.at(name), 1) << name;
  }
  EXPECT_EQ(report.at("AR1"), 0.25);
  expect_error<Error>([&] { report.at("AP90"); }, {"AP90"});
}

TEST(CocoEvaluator, ThresholdsHaveTheirFigures) {
  CocoEvaluator evaluator = boxes();
  evaluator.add(3, Truths{truth(1, kTen)}, Found{found(1, {0, 0, 10, 7.6}, 1)});
  CocoReport report = evaluator.report();
  EXPECT_NEAR(report.at("AP50"), 1, 1e-15);
  EXPECT_NEAR(report.at("AP75"), 1, 1e-15);
  EXPECT_NEAR(report.at("AP"), 0.6, 1e-15);
  EXPECT_DOUBLE_EQ(report.at("AR100"), 0.6);
  EXPECT_EQ(report.precision[6][0], 0);
  CocoEvaluator worse = boxes();
  worse.add(3, Truths{truth(1, kTen)}, Found{found(1, {0, 0, 10, 7.4}, 1)});
  EXPECT_EQ(worse.report().at("AP75"), 0);
}

TEST(CocoEvaluator, PrecisionIsThatOfHigherRecalls) {
  // T F F T T of 4 truths: precisions 1, 1/2, 3/5, of which the second becomes 3/5.
  Found all{found(1, place(0), 0.9), found(1, kElsewhere, 0.8), found(1, kElsewhere, 0.7),
            found(1, place(1), 0.6), found(1, place(2), 0.5)};
  CocoEvaluator evaluator = boxes();
  evaluator.add(
      3, Truths{truth(1, place(0)), truth(1, place(1)), truth(1, place(2)), truth(1, place(3))},
      all);
  const auto curve = evaluator.report().precision[0];
  EXPECT_EQ(curve[0], 1 / (1 + 0x1p-52));
  EXPECT_EQ(curve[25], 1 / (1 + 0x1p-52));
  EXPECT_EQ(curve[26], 0.6);
  EXPECT_EQ(curve[75], 0.6);
  EXPECT_EQ(curve[76], 0);
  EXPECT_EQ(curve[100], 0);
}

TEST(CocoEvaluator, RecallsAreMultiplesOfOneHundredth) {
  // 35 / 100 is below 35 x 0.01, but 36 / 100 is not below 36 x 0.01.
  for (int hits : {35, 36}) {
    CocoEvaluator evaluator = boxes();
    Truths truths;
    Found all;
    for (int i = 0; i < 100; ++i) truths.push_back(truth(1, place(i)));
    for (int i = 0; i < hits; ++i) all.push_back(found(1, place(i), 1));
    evaluator.add(3, truths, all);
    const auto curve = evaluator.report().precision[0];
    EXPECT_GT(curve[hits - 1], 0.99);
    EXPECT_EQ(curve[hits] > 0.99, hits == 36) << hits;
    EXPECT_EQ(curve[hits + 1], 0);
  }
}

TEST(CocoEvaluator, IgnoredDetectionsChangeNothing) {
  CocoEvaluator evaluator = boxes();
  evaluator.add(3, Truths{truth(1, {100, 100, 50, 50}, true), truth(1, kTen)},
                Found{found(1, {110, 110, 5, 5}, 1), found(1, kTen, 0.5)});
  EXPECT_NEAR(evaluator.report().at("AP"), 1, 1e-15);
  EXPECT_EQ(evaluator.report().at("AR1"), 0) << "but an ignored detection takes a place";
}

TEST(CocoEvaluator, EqualScoresComeByImageId) {
  const auto ap_of = [](std::initializer_list<std::int64_t> order) {
    CocoEvaluator evaluator = boxes();
    for (std::int64_t image : order) {
      // Image -2 has the hit; the others have wrong detections.
      if (image == -2) evaluator.add(image, Truths{truth(1, kTen)}, Found{found(1, kTen, 0.5)});
      if (image != -2) evaluator.add(image, {}, Found{found(1, kTen, 0.5)});
    }
    return evaluator.report().at("AP");
  };
  EXPECT_NEAR(ap_of({-2, 4, 9}), 1, 1e-15);
  EXPECT_NEAR(ap_of({9, 4, -2}), 1, 1e-15);
  EXPECT_NEAR(ap_of({-3, -2, 4}), 0.5, 1e-15);
  EXPECT_NEAR(ap_of({4, -2, -5, -3}), 1. / 3, 1e-15);
}

TEST(CocoEvaluator, RecallCountsDetectionsPerImage) {
  CocoEvaluator evaluator = boxes();
  for (int image : {1, 2}) {
    Truths truths;
    Found all;
    for (int i = 0; i < 20; ++i) truths.push_back(truth(1, place(i)));
    for (int i = 0; i < 20; ++i)
      all.push_back(found(1, i % 5 == 4 ? kElsewhere : place(i), 1 - 0.01 * i));
    evaluator.add(image, truths, all);
  }
  const CocoReport report = evaluator.report();
  EXPECT_DOUBLE_EQ(report.at("AR1"), 2. / 40);
  EXPECT_DOUBLE_EQ(report.at("AR10"), 16. / 40);
  EXPECT_DOUBLE_EQ(report.at("AR100"), 32. / 40);
}

TEST(CocoEvaluator, MeanIsOverCategoriesWithTruths) {
  CocoEvaluator evaluator = boxes({10, 2, 7});
  evaluator.add(1, Truths{truth(10, kTen), truth(2, kTen), truth(2, place(3))},
                Found{found(2, kTen, 0.5), found(7, kTen, 0.5), found(99, kTen, 0.5)});
  const CocoReport report = evaluator.report();
  const double half = 51. / 101;  // recalls up to 0.5
  EXPECT_NEAR(report.class_ap[0], half, 1e-15);
  EXPECT_EQ(report.class_ap[1], -1);
  EXPECT_EQ(report.class_ap[2], 0);
  EXPECT_NEAR(report.at("AP"), half / 2, 1e-15);
  EXPECT_NEAR(report.precision[0][50], 0.5, 1e-15);
}

// Random images with many equal scores and overlaps.
struct RandomImages {
  std::vector<Truths> truths;
  std::vector<Found> found;

  explicit RandomImages(int images) : truths(images), found(images) {
    std::uint64_t element = 0;
    const auto draw = [&](std::uint32_t n) { return philox_u32({.seed = 5}, element++) % n; };
    const auto box = [&] {
      return CocoBox{10. * draw(6), 10. * draw(6), 10. * (1 + draw(6)), 10. * (1 + draw(6))};
    };
    for (int i = 0; i < images; ++i) {
      for (auto n = draw(12); n > 0; --n) truths[i].push_back(truth(draw(4), box(), draw(6) == 0));
      for (auto n = draw(40); n > 0; --n) found[i].push_back(test::found(draw(4), box(), draw(7)));
    }
  }
};

bool equal(const CocoReport& a, const CocoReport& b) {
  return a.figures == b.figures && a.class_ap == b.class_ap && a.precision == b.precision;
}

TEST(CocoEvaluator, PartsMergeToTheSameBits) {
  constexpr int kImages = 60;
  const RandomImages all(kImages);
  const auto add = [&](CocoEvaluator& to, int i) {
    to.add(1000 - 3 * i, all.truths[i], all.found[i]);
  };
  CocoEvaluator whole = boxes({0, 1, 2, 3});
  for (int i = 0; i < kImages; ++i) add(whole, i);
  const CocoReport report = whole.report();
  EXPECT_GT(report.at("AP"), 0.001);
  EXPECT_GT(report.at("AR100"), report.at("AR1"));
  for (int parts : {1, 2, 7}) {
    CocoEvaluator merged = boxes({3, 2, 1, 0});
    for (int part = parts; part-- > 0;) {
      CocoEvaluator some = boxes({0, 1, 2, 3});
      for (int i = kImages - 1; i >= 0; --i) {
        if (i % parts == part) add(some, i);
      }
      merged.add_packed(some.packed());
    }
    EXPECT_TRUE(equal(merged.report(), report)) << parts;
  }
  const int threads = max_threads();
  for (int n : {1, 3}) {
    set_num_threads(n);
    EXPECT_TRUE(equal(whole.report(), report)) << n;
  }
  set_num_threads(threads);
}

TEST(CocoEvaluator, RefusesImagesAndCategoriesTwice) {
  CocoEvaluator evaluator = boxes();
  evaluator.add(3, Truths{truth(1, kTen)}, {});
  evaluator.add(4, {}, {});
  CocoEvaluator other = boxes();
  other.add(4, {}, {});
  evaluator.add_packed(other.packed());
  expect_error<DataError>([&] { evaluator.report(); }, {"image 4", "twice"});
  expect_error<DataError>([] { boxes({5, 2, 5}); }, {"category 5", "twice"});
}

TEST(CocoEvaluator, RefusesDamagedParts) {
  CocoEvaluator evaluator = boxes({1, 2});
  evaluator.add(3, Truths{truth(2, kTen)}, Found{found(2, kTen, 1), found(2, kTen, 0.5)});
  const std::vector<std::int64_t> good = evaluator.packed();
  EXPECT_EQ(good.size(), 2u + 6u + 3u * 2u);
  for (std::size_t size = 1; size < good.size(); ++size) {
    CocoEvaluator other = boxes({1, 2});
    expect_error<Error>([&] { other.add_packed(std::span(good).first(size)); }, {"damaged"});
  }
  CocoEvaluator fewer = boxes({1});
  expect_error<Error>([&] { fewer.add_packed(good); }, {"other categories"});
}

}  // namespace
}  // namespace dtn
