#include "tasks/boxes/assignment.h"

#include <gtest/gtest.h>

#include "tasks/boxes/anchors.h"
#include "unit/boxes/random_boxes.h"

namespace dtn::test {
namespace {

using Assigned = std::vector<std::int32_t>;

// The rule over the whole table of IoUs.
Assigned plain_assignment(const std::vector<Box>& boxes, const std::vector<Box>& truths,
                          const AssignmentRule& rule, const std::vector<std::uint8_t>& counts) {
  const auto counted = [&](std::size_t i) { return counts.empty() || counts[i]; };
  Assigned result(boxes.size(), kIgnoredBox);
  std::vector<float> best_of_truth(truths.size(), 0.0f);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!counted(i)) continue;
    float best = 0;
    std::int32_t which = 0;
    for (std::size_t t = 0; t < truths.size(); ++t) {
      const float of = plain_iou(truths[t], boxes[i]);
      if (of > best) best = of, which = static_cast<std::int32_t>(t);
      best_of_truth[t] = std::max(best_of_truth[t], of);
    }
    if (best < rule.negative) result[i] = kBackgroundBox;
    if (best >= rule.positive) result[i] = which;
  }
  for (std::size_t t = 0; t < truths.size(); ++t) {
    if (best_of_truth[t] < rule.least_forced) continue;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      if (counted(i) && plain_iou(truths[t], boxes[i]) == best_of_truth[t]) {
        result[i] = static_cast<std::int32_t>(t);
      }
    }
  }
  return result;
}

TEST(Assignment, Thresholds) {
  const Box truth{0, 0, 10, 10};
  // IoUs 1, 0.5, 0.45, 0.4, 0.39, 0.
  const std::vector<Box> boxes = {{0, 0, 10, 10}, {0, 0, 10, 5},    {0, 0, 10, 4.5f},
                                  {0, 0, 10, 4},  {0, 0, 10, 3.9f}, {20, 20, 30, 30}};
  EXPECT_EQ(assign_boxes(boxes, std::span(&truth, 1), kRetinaNetRule),
            (Assigned{0, 0, kIgnoredBox, kIgnoredBox, kBackgroundBox, kBackgroundBox}));
  EXPECT_EQ(assign_boxes(boxes, std::span(&truth, 1), kRpnRule),
            (Assigned{0, kIgnoredBox, kIgnoredBox, kIgnoredBox, kIgnoredBox, kBackgroundBox}));
  EXPECT_EQ(assign_boxes(boxes, std::span(&truth, 1), kRoiRule),
            (Assigned{0, 0, kBackgroundBox, kBackgroundBox, kBackgroundBox, kBackgroundBox}));
}

TEST(Assignment, NoTruthsMakeBackground) {
  const std::vector<Box> boxes(5, Box{0, 0, 1, 1});
  EXPECT_EQ(assign_boxes(boxes, {}, kRpnRule), Assigned(5, kBackgroundBox));
  EXPECT_TRUE(assign_boxes({}, boxes, kRpnRule).empty());
}

TEST(Assignment, TieGoesToFirstTruth) {
  const std::vector<Box> truths = {{0, 0, 10, 10}, {4, 0, 14, 10}};
  const std::vector<Box> boxes = {{2, 0, 12, 10}, {0, 0, 10, 10}, {4, 0, 14, 10}};
  AssignmentRule rule = kRoiRule;
  EXPECT_EQ(plain_iou(truths[0], boxes[0]), plain_iou(truths[1], boxes[0]));
  EXPECT_EQ(assign_boxes(boxes, truths, rule), (Assigned{0, 0, 1}));
}

TEST(Assignment, TruthForcesAllItsBestBoxes) {
  const std::vector<Box> truths = {{0, 0, 10, 10}};
  // Two boxes tie at 1/4.
  const std::vector<Box> boxes = {{0, 0, 5, 5}, {5, 5, 10, 10}, {0, 0, 4, 5}};
  EXPECT_EQ(assign_boxes(boxes, truths, kRetinaNetRule), (Assigned{0, 0, kBackgroundBox}));
  EXPECT_EQ(assign_boxes(boxes, truths, kRpnRule),
            (Assigned{kBackgroundBox, kBackgroundBox, kBackgroundBox}))
      << "1/4 is below the least IoU of a forced match";
  AssignmentRule equal = kRetinaNetRule;
  equal.least_forced = 0.25f;
  EXPECT_EQ(assign_boxes(boxes, truths, equal), (Assigned{0, 0, kBackgroundBox}));
}

TEST(Assignment, LaterTruthOverwritesEarlierMatch) {
  // The box is positive for the first truth, and the best one of the second.
  const std::vector<Box> truths = {{0, 0, 10, 10}, {0, 0, 10, 6}};
  const std::vector<Box> boxes = {{0, 0, 10, 9}};
  EXPECT_EQ(assign_boxes(boxes, truths, kRetinaNetRule), (Assigned{1}));
  const std::vector<Box> swapped = {truths[1], truths[0]};
  EXPECT_EQ(assign_boxes(boxes, swapped, kRetinaNetRule), (Assigned{1}));
  AssignmentRule rule = kRetinaNetRule;
  rule.least_forced = 2;
  EXPECT_EQ(assign_boxes(boxes, truths, rule), (Assigned{0})) << "without forced matches";
}

TEST(Assignment, TruthThatTouchesNothingForcesAll) {
  const std::vector<Box> truths = {{50, 50, 60, 60}};
  const std::vector<Box> boxes = {{0, 0, 10, 10}, {20, 0, 30, 10}};
  EXPECT_EQ(assign_boxes(boxes, truths, kRetinaNetRule), (Assigned{0, 0}));
  EXPECT_EQ(assign_boxes(boxes, truths, kRpnRule), Assigned(2, kBackgroundBox));
}

TEST(Assignment, BoxesThatDoNotCountMatchNothing) {
  const std::vector<Box> truths = {{0, 0, 10, 10}};
  const std::vector<Box> boxes = {{0, 0, 10, 10}, {0, 0, 10, 2}, {30, 30, 40, 40}};
  const std::vector<std::uint8_t> counts = {0, 1, 1};
  EXPECT_EQ(assign_boxes(boxes, truths, kRetinaNetRule, counts),
            (Assigned{kIgnoredBox, 0, kBackgroundBox}))
      << "the best box that counts is forced";
}

// The search that skips groups of boxes finds what the whole table gives, ties included.
TEST(Assignment, MatchesWholeTable) {
  const std::vector<AnchorLevel> levels = retinanet_anchors();
  const auto grids = grids_of(levels, 160, 224), own = grids_of(levels, 128, 224);
  const std::vector<Box> anchors = anchors_of(levels, grids);
  const std::vector<std::uint8_t> inside = anchors_inside(levels, grids, own);
  std::int64_t positive = 0;
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    const std::vector<Box> truths = random_boxes(12, seed, 120, seed % 2 ? 20.0f : 100.0f);
    for (const AssignmentRule& rule : {kRetinaNetRule, kRpnRule, kRoiRule}) {
      for (const auto& counts : {inside, std::vector<std::uint8_t>()}) {
        const Assigned got = assign_boxes(anchors, truths, rule, counts);
        ASSERT_EQ(got, plain_assignment(anchors, truths, rule, counts));
        positive += std::ranges::count_if(got, [](std::int32_t a) { return a >= 0; });
      }
    }
  }
  EXPECT_GT(positive, 1000);
}

}  // namespace
}  // namespace dtn::test
