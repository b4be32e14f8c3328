#include "tasks/boxes/nms.h"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/boxes/random_boxes.h"

namespace dtn::test {
namespace {

using Kept = std::vector<std::int64_t>;

std::vector<float> random_scores(std::size_t count, std::uint32_t stream) {
  std::vector<float> scores;
  for (std::size_t i = 0; i < count; ++i) {
    // Few different values, so that many scores tie.
    scores.push_back(std::floor(philox_uniform({3, stream, 0}, i) * 50) / 50);
  }
  return scores;
}

// Removes boxes one by one, without any order of memory.
Kept plain_nms(const std::vector<Box>& boxes, const std::vector<float>& scores,
               const std::vector<std::int32_t>& classes, double threshold) {
  std::vector<bool> left(boxes.size(), true);
  Kept kept;
  for (;;) {
    std::int64_t best = -1;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      if (left[i] && (best < 0 || scores[i] > scores[static_cast<std::size_t>(best)])) {
        best = static_cast<std::int64_t>(i);
      }
    }
    if (best < 0) return kept;
    kept.push_back(best);
    const auto b = static_cast<std::size_t>(best);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const bool same = classes[i] == classes[b];
      if (i == b || (same && static_cast<double>(plain_iou(boxes[b], boxes[i])) > threshold)) {
        left[i] = false;
      }
    }
  }
}

TEST(Nms, RemovesStrictlyAboveThreshold) {
  const std::vector<Box> boxes = {{0, 0, 4, 4}, {0, 0, 4, 2}, {0, 0, 4, 3}, {10, 10, 12, 12}};
  const std::vector<float> scores = {0.9f, 0.8f, 0.7f, 0.95f};
  // IoUs with box 0: 1/2 and 3/4. Box 1 with box 2: 2/3.
  EXPECT_EQ(nms(boxes, scores, 0.5), (Kept{3, 0, 1}));
  EXPECT_EQ(nms(boxes, scores, 0.49), (Kept{3, 0}));
  EXPECT_EQ(nms(boxes, scores, 0.75), (Kept{3, 0, 1, 2}));
  EXPECT_EQ(nms(boxes, scores, 0.5, 2), (Kept{3, 0}));
  EXPECT_EQ(nms(boxes, scores, 0.5, 0), Kept());
  EXPECT_EQ(nms({}, {}, 0.5), Kept());
}

// The threshold is compared in float64: the float 3 / 10 is above 0.3.
TEST(Nms, ThresholdIsNotRounded) {
  const std::vector<Box> boxes = {{0, 0, 10, 10}, {0, 0, 10, 3}, {0, 0, 10, 7}};
  const std::vector<float> scores = {1, 0.5f, 0.2f};
  ASSERT_GT(static_cast<double>(plain_iou(boxes[0], boxes[1])), 0.3);
  EXPECT_EQ(nms(boxes, scores, 0.3), (Kept{0}));
  ASSERT_LT(static_cast<double>(plain_iou(boxes[0], boxes[2])), 0.7);
  EXPECT_EQ(nms({boxes.data() + 0, 3}, scores, 0.7), (Kept{0, 1, 2}));
}

TEST(Nms, RemovedBoxRemovesNothing) {
  const std::vector<Box> boxes = {{0, 0, 10, 10}, {4, 0, 14, 10}, {8, 0, 18, 10}};
  EXPECT_EQ(nms(boxes, std::vector<float>{3, 2, 1}, 0.4), (Kept{0, 2}));
}

TEST(Nms, LowerIndexWinsTie) {
  const std::vector<Box> boxes(3, Box{0, 0, 2, 2});
  EXPECT_EQ(nms(boxes, std::vector<float>{0.5f, 0.5f, 0.5f}, 0.5), (Kept{0}));
  EXPECT_EQ(nms(boxes, std::vector<float>{0.4f, 0.5f, 0.5f}, 0.5), (Kept{1}));
  EXPECT_EQ(nms(boxes, std::vector<float>{NAN, 0.5f, -1}, 0.5), (Kept{1})) << "NaN comes last";
}

TEST(Nms, ClassesDoNotSuppressOneAnother) {
  const std::vector<Box> boxes(4, Box{0, 0, 2, 2});
  const std::vector<float> scores = {0.1f, 0.4f, 0.3f, 0.2f};
  EXPECT_EQ(nms_by_class(boxes, scores, std::vector<std::int32_t>{7, 0, 7, 0}, 0.5), (Kept{1, 2}));
  EXPECT_EQ(nms_by_class(boxes, scores, std::vector<std::int32_t>{7, 0, 7, 0}, 0.5, 1), (Kept{1}));
}

TEST(Nms, MatchesPlainSearch) {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const std::vector<Box> boxes = random_boxes(400, seed, 80, 40);
    const std::vector<float> scores = random_scores(boxes.size(), seed);
    std::vector<std::int32_t> one(boxes.size(), 0), several;
    for (std::size_t i = 0; i < boxes.size(); ++i) several.push_back(static_cast<int>(i * 7 % 5));
    for (double threshold : {0.3, 0.5, 0.7}) {
      const Kept want = plain_nms(boxes, scores, one, threshold);
      EXPECT_LT(want.size(), boxes.size());
      EXPECT_EQ(nms(boxes, scores, threshold), want);
      EXPECT_EQ(nms_by_class(boxes, scores, several, threshold),
                plain_nms(boxes, scores, several, threshold));
      EXPECT_EQ(nms(boxes, scores, threshold, 5), Kept(want.begin(), want.begin() + 5));
    }
  }
}

}  // namespace
}  // namespace dtn::test
