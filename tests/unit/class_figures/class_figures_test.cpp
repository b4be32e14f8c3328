// Figures of a classification against those of scikit-learn 1.9.1.
#include "tasks/class_figures/class_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr double kTight = 1e-12;
constexpr float kNever = -1000;  // a logit whose probability is 0

struct Row {
  std::vector<float> logits;
  std::int64_t truth;
};

// Five classes. No sample is of class 3, which is predicted, or of class 4, which is not. Three
// samples have probabilities on the edge of a bin, and several have equal largest logits.
const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {{2, 1, 0, -1, -2}, 0},
      {{1, 3, 0, 0, -3}, 1},
      {{0, 0, 0, 0, 0}, 0},
      {{0, 0, 0, 0, 0}, 2},
      {{1, 1, kNever, kNever, 1}, 1},
      {{kNever, kNever, 4, kNever, kNever}, 2},
      {{kNever, kNever, 4, kNever, kNever}, 1},
      {{0, 1, 2, 3, -1}, 2},
      {{0, 1, 2, 3, -1}, 0},
      {{2, 2, 1, 0, -2}, 1},
      {{2, 2, 1, 0, -2}, 0},
      {{1, 0, 3, 2, -2}, 2},
      {{3, 1, 2, 0, -1}, 0},
      {{3, 2, 2, 0, -1}, 2},
  };
  return kRows;
}

std::vector<ClassifiedSample> samples() {
  std::vector<ClassifiedSample> out;
  for (std::size_t i = 0; i < rows().size(); ++i) {
    out.push_back(
        classified(static_cast<std::int64_t>(i), rows()[i].logits, rows()[i].truth).value());
  }
  return out;
}

ClassificationFigures figures() { return figures_of(samples(), 5); }

// A matrix whose entries off the diagonal are `pairs`; each class has 100 samples.
ClassificationFigures figures_with(std::int64_t classes, const std::vector<Confusion>& pairs) {
  std::vector<ClassifiedSample> all;
  std::vector<std::int64_t> left(static_cast<std::size_t>(classes), 100);
  const auto add = [&](std::int64_t truth, std::int64_t prediction, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      all.push_back({.index = std::ssize(all),
                     .truth = static_cast<std::int32_t>(truth),
                     .prediction = static_cast<std::int32_t>(prediction),
                     .probability = 1});
    }
  };
  for (const Confusion& pair : pairs) {
    add(pair.truth, pair.prediction, pair.count);
    left[static_cast<std::size_t>(pair.truth)] -= pair.count;
  }
  for (std::int64_t c = 0; c < classes; ++c) add(c, c, left[static_cast<std::size_t>(c)]);
  return figures_of(all, classes);
}

TEST(ClassifiedSamples, PredictFirstOfEqualLogits) {
  const std::vector<int> expected = {0, 1, 0, 0, 0, 2, 2, 3, 3, 0, 0, 2, 0, 0};
  const std::vector<ClassifiedSample> all = samples();
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].prediction, expected[i]) << i;
}

TEST(ClassifiedSamples, LossAndProbabilityAreThoseOfSoftmax) {
  const std::vector<ClassifiedSample> all = samples();
  EXPECT_NEAR(all[0].probability, 0.6364086465588308, kTight);
  EXPECT_NEAR(all[0].loss, 0.4519143959375933, kTight);
  EXPECT_NEAR(all[8].probability, 0.6364086465588308, kTight);
  EXPECT_NEAR(all[8].loss, 3.4519143959375933, kTight);
  EXPECT_NEAR(all[6].loss, 1004, kTight);  // though the probability is 0 in double precision
  EXPECT_EQ(all[5].loss, 0);
}

TEST(ClassifiedSamples, RefuseLogitsThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    EXPECT_FALSE(classified(0, std::vector<float>{0, bad, 1}, 0)) << bad;
  }
  EXPECT_THROW(classified(0, std::vector<float>{0, 1}, 2), Error);
  EXPECT_THROW(classified(0, std::vector<float>{0, 1}, -1), Error);
}

TEST(ClassificationFigures, ConfusionMatrix) {
  const std::vector<std::vector<std::int64_t>> expected = {
      {4, 0, 0, 1, 0}, {2, 1, 1, 0, 0}, {2, 0, 2, 1, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}};
  const ClassificationFigures all = figures();
  for (std::int64_t t = 0; t < 5; ++t) {
    EXPECT_EQ(all.confusion_row(t), expected[static_cast<std::size_t>(t)]) << t;
  }
  EXPECT_TRUE(std::ranges::none_of(all.confusions, [](auto& e) { return e.count == 0; }));
}

TEST(ClassificationFigures, PrecisionRecallAndF1) {
  const std::vector<double> precision = {0.5, 1, 0.6666666666666666, 0, 0};
  const std::vector<double> recall = {0.8, 0.25, 0.4, 0, 0};
  const std::vector<double> f1 = {0.6153846153846154, 0.4, 0.5, 0, 0};
  const std::vector<std::int64_t> support = {5, 4, 5, 0, 0}, predicted = {8, 1, 3, 2, 0};
  const ClassificationFigures all = figures();
  ASSERT_EQ(all.classes.size(), 5u);
  for (std::size_t c = 0; c < 5; ++c) {
    EXPECT_NEAR(all.classes[c].precision, precision[c], kTight) << c;
    EXPECT_NEAR(all.classes[c].recall, recall[c], kTight) << c;
    EXPECT_NEAR(all.classes[c].f1, f1[c], kTight) << c;
    EXPECT_EQ(all.classes[c].support, support[c]) << c;
    EXPECT_EQ(all.classes[c].predicted, predicted[c]) << c;
  }
  EXPECT_TRUE(all.classes[3].occurs());
  EXPECT_FALSE(all.classes[4].occurs());
}

TEST(ClassificationFigures, MeansOverSamplesAndClasses) {
  const ClassificationFigures all = figures();
  EXPECT_EQ(all.count, 14);
  EXPECT_NEAR(all.top1, 0.5, kTight);
  EXPECT_NEAR(all.loss, 72.7301663728258, 1e-10);
  EXPECT_NEAR(all.confidence, 0.5768421236661629, kTight);
  EXPECT_NEAR(all.macro_f1, 0.3030769230769231, kTight);           // labels=range(5)
  EXPECT_NEAR(all.macro_f1_present, 0.37884615384615383, kTight);  // labels of the data
  const std::vector<double> top_k = {0.5, 0.7142857142857143, 0.9285714285714286, 1, 1};
  ASSERT_EQ(all.top_k.size(), top_k.size());
  for (std::size_t k = 0; k < 5; ++k) EXPECT_NEAR(all.top_k[k], top_k[k], kTight) << k;
}

TEST(ClassificationFigures, ReliabilityIncludesUpperEdges) {
  const std::vector<std::int64_t> counts = {0, 0, 2, 0, 1, 2, 0, 0, 1, 5, 0, 0, 1, 0, 2};
  const std::vector<double> accuracy = {0.5, 0, 0.5, 0, 0.6, 1, 0.5};
  const std::vector<double> confidence = {0.2,
                                          0.3333333333333333,
                                          0.3965845561710961,
                                          0.5543662583458153,
                                          0.6373534379285537,
                                          0.8081538376621719,
                                          1};
  const ClassificationFigures all = figures();
  ASSERT_EQ(all.reliability.size(), kCalibrationBins);
  std::size_t filled = 0;
  for (std::size_t i = 0; i < kCalibrationBins; ++i) {
    const CalibrationBin& bin = all.reliability[i];
    EXPECT_DOUBLE_EQ(bin.from, static_cast<double>(i) / 15);
    EXPECT_DOUBLE_EQ(bin.to, static_cast<double>(i + 1) / 15);
    EXPECT_EQ(bin.count, counts[i]) << i;
    if (bin.count == 0) {
      EXPECT_EQ(bin.accuracy, 0);
      EXPECT_EQ(bin.confidence, 0);
      continue;
    }
    EXPECT_NEAR(bin.accuracy, accuracy[filled], kTight) << i;
    EXPECT_NEAR(bin.confidence, confidence[filled], kTight) << i;
    ++filled;
  }
  EXPECT_NEAR(all.ece, 0.2195102736655395, kTight);
}

TEST(ClassificationFigures, EveryEdgeBelongsToTheBinBelow) {
  std::vector<ClassifiedSample> on_edges;
  for (int i = 0; i <= 15; ++i) on_edges.push_back({.probability = i / 15.0});
  const ClassificationFigures all = figures_of(on_edges, 1);
  EXPECT_EQ(all.reliability[0].count, 2);  // 0 and 1 / 15
  for (std::size_t i = 1; i < kCalibrationBins; ++i) EXPECT_EQ(all.reliability[i].count, 1) << i;
}

TEST(ClassificationFigures, NoSamplesGiveZeros) {
  const ClassificationFigures none = figures_of({}, 3);
  EXPECT_EQ(none.count, 0);
  EXPECT_EQ(none.top1, 0);
  EXPECT_EQ(none.ece, 0);
  EXPECT_EQ(none.macro_f1, 0);
  EXPECT_EQ(none.macro_f1_present, 0);
  EXPECT_EQ(none.confusion_row(1), (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_TRUE(confused_pairs(none).empty());
  EXPECT_EQ(most_confused(none, 2), std::vector<std::int64_t>());
}

TEST(ClassificationFigures, ManyClassesHaveTenTopK) {
  std::vector<float> logits(1000);
  for (std::size_t i = 0; i < 1000; ++i) logits[i] = -static_cast<float>(i);
  const std::vector<ClassifiedSample> one = {classified(0, logits, 7).value()};
  const ClassificationFigures all = figures_of(one, 1000);
  EXPECT_EQ(all.top_k, (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(all.confusions.size(), 1u);
}

TEST(ConfusedPairs, ComeByFallingCountThenByShare) {
  std::vector<Confusion> pairs = confused_pairs(figures());
  std::vector<std::vector<std::int64_t>> found;
  for (const Confusion& p : pairs) found.push_back({p.truth, p.prediction, p.count});
  // Two of the 4 of class 1 come before two of the 5 of class 2, and likewise below.
  EXPECT_EQ(found, (std::vector<std::vector<std::int64_t>>{
                       {1, 0, 2}, {2, 0, 2}, {1, 2, 1}, {0, 3, 1}, {2, 3, 1}}));
}

TEST(WorstSamples, AreWrongAndComeByFallingLoss) {
  std::vector<std::int64_t> order;
  for (const ClassifiedSample& s : worst_first(samples())) order.push_back(s.index);
  EXPECT_EQ(order, (std::vector<std::int64_t>{6, 8, 3, 13, 7, 4, 9}));
}

TEST(MostConfused, AllClassesKeepTheirOrder) {
  EXPECT_EQ(most_confused(figures(), 5), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(MostConfused, LeavesOutClassesThatAreRarelyConfused) {
  const ClassificationFigures all =
      figures_with(9, {{0, 8, 30}, {8, 0, 5}, {2, 5, 20}, {5, 0, 3}, {1, 3, 2}, {6, 7, 1}});
  std::vector<std::int64_t> shown = most_confused(all, 4);
  // 5 and 0 are confused, so they are neighbours, with their closer partners outside.
  const std::vector<std::int64_t> expected = {2, 5, 0, 8};
  const bool reversed = shown.front() == 8;
  if (reversed) std::ranges::reverse(shown);
  EXPECT_EQ(shown, expected);
}

TEST(MostConfused, NeverExceedsItsLimit) {
  // The third place of three cannot hold a pair, but a class of a pair that is partly shown.
  const ClassificationFigures all = figures_with(6, {{0, 1, 9}, {2, 3, 8}, {4, 1, 7}});
  std::vector<std::int64_t> shown = most_confused(all, 3);
  std::ranges::sort(shown);
  EXPECT_EQ(shown, (std::vector<std::int64_t>{0, 1, 4}));
}

}  // namespace
}  // namespace dtn
