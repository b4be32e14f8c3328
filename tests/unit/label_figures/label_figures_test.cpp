// Figures of samples with any number of classes, computed by hand.
#include "tasks/label_figures/label_figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dtn/core/check.h"

namespace dtn {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

LabelledLogits samples_of(const Floats& logits, const Bytes& labels, std::int64_t classes) {
  return {std::ssize(logits) / classes, classes, logits, labels};
}

TEST(AveragePrecision, AddsPrecisionWhereRecallRises) {
  // Hits at ranks 1 and 3 of 4.
  EXPECT_DOUBLE_EQ(average_precision(Floats{4, 3, 2, 1}, Bytes{1, 0, 1, 0}), (1.0 + 2.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(average_precision(Floats{1, 2, 3}, Bytes{1, 0, 0}), 1.0 / 3);
}

TEST(AveragePrecision, TakesEqualScoresTogether) {
  EXPECT_DOUBLE_EQ(average_precision(Floats{1, 1, 1, 1}, Bytes{1, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(average_precision(Floats{1, 1, 1, 1}, Bytes{0, 0, 0, 1}), 0.25);
  EXPECT_DOUBLE_EQ(average_precision(Floats{2, 1, 1}, Bytes{1, 0, 1}), 0.5 + 0.5 * 2 / 3);
}

TEST(AveragePrecision, NeedsSample) {
  EXPECT_THROW(average_precision(Floats{1, 2}, Bytes{0, 0}), Error);
}

TEST(MultilabelFigures, CountClassWithoutSampleInMacroF1Alone) {
  const Floats logits{5, -5, 5, -5};
  const Bytes labels{1, 0, 1, 0};
  const MultilabelFigures figures = label_figures(samples_of(logits, labels, 2), 0.5);
  EXPECT_EQ(figures.count, 2);
  EXPECT_DOUBLE_EQ(figures.map, 1);
  EXPECT_DOUBLE_EQ(figures.f1_micro, 1);
  EXPECT_DOUBLE_EQ(figures.f1_macro, 0.5);
  EXPECT_FALSE(figures.classes[1].ap.has_value());
  EXPECT_NEAR(figures.loss, std::log1p(std::exp(-5.0)), 1e-15);
}

TEST(MultilabelFigures, PredictAtThreshold) {
  const Floats logits{0, 0.1F};
  const Bytes labels{1, 1};
  EXPECT_EQ(label_figures(samples_of(logits, labels, 1), 0.5).classes[0].predicted, 2);
  EXPECT_EQ(label_figures(samples_of(logits, labels, 1), 0.5001).classes[0].predicted, 1);
}

TEST(MultilabelFigures, AreUnknownForLogitsThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Floats logits{bad, 1};
    const Bytes labels{1, 0};
    const MultilabelFigures figures = label_figures(samples_of(logits, labels, 2), 0.5);
    EXPECT_TRUE(std::isnan(figures.map) && std::isnan(figures.f1_micro) &&
                std::isnan(figures.f1_macro) && std::isnan(figures.loss));
    EXPECT_EQ(best_threshold(samples_of(logits, labels, 2)), std::nullopt);
  }
}

TEST(MultilabelFigures, OfLargeLogitsAreFinite) {
  const Floats logits{-1000, 1000};
  const Bytes labels{1, 1};
  EXPECT_DOUBLE_EQ(label_figures(samples_of(logits, labels, 2), 0.5).loss, 500);
}

TEST(BestThreshold, LiesBetweenAcceptedAndRejected) {
  const Floats logits{2, 1, -1, -2};
  const auto middle = [](float a, float b) { return (probability_of(a) + probability_of(b)) / 2; };
  EXPECT_DOUBLE_EQ(*best_threshold(samples_of(logits, {1, 1, 0, 0}, 1)), middle(1, -1));
  EXPECT_DOUBLE_EQ(*best_threshold(samples_of(logits, {1, 1, 1, 1}, 1)), probability_of(-2) / 2);
  // F1 of the first is 2/3, as of the first four; the larger threshold is chosen.
  EXPECT_DOUBLE_EQ(*best_threshold(samples_of(logits, {1, 0, 0, 1}, 1)), middle(2, 1));
}

TEST(BestThreshold, IsNoneWithoutClasses) {
  const Floats logits{2, 1};
  EXPECT_EQ(best_threshold(samples_of(logits, {0, 0}, 1)), std::nullopt);
}

// Decisions with equal probabilities cannot be divided.
TEST(BestThreshold, TakesEqualProbabilitiesTogether) {
  const Floats logits{1, 1, 0};
  EXPECT_DOUBLE_EQ(*best_threshold(samples_of(logits, {1, 0, 0}, 1)),
                   (probability_of(1) + 0.5) / 2);
  // Different logits whose probabilities are both 1, and one whose probability is 0.
  const Floats far{100, 50, -1000};
  const double threshold = *best_threshold(samples_of(far, {1, 1, 0}, 1));
  EXPECT_GT(threshold, 0);
  EXPECT_EQ(label_figures(samples_of(far, {1, 1, 0}, 1), threshold).f1_micro, 1);
}

TEST(PrecisionCurve, HasPointForEachScore) {
  const auto points = precision_curve(Floats{3, 2, 2, 1}, Bytes{1, 1, 0, 0});
  ASSERT_EQ(points.size(), 3U);
  EXPECT_DOUBLE_EQ(points[0].precision, 1);
  EXPECT_DOUBLE_EQ(points[0].recall, 0.5);
  EXPECT_DOUBLE_EQ(points[1].precision, 2.0 / 3);
  EXPECT_DOUBLE_EQ(points[1].recall, 1);
  EXPECT_EQ(points[1].score, 2);
  EXPECT_DOUBLE_EQ(points[2].precision, 0.5);
}

}  // namespace
}  // namespace dtn
