#include "tasks/detect/proposals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dtn/core/check.h"

namespace dtn::test {
namespace {

constexpr ResizedImage kImage{100, 200, 50, 100};

Proposals best_of(const std::vector<std::vector<Box>>& anchors,
                  const std::vector<std::vector<float>>& logits,
                  const std::vector<std::vector<float>>& deltas, const ProposalRule& rule) {
  std::vector<DenseLevel> levels;
  for (std::size_t l = 0; l < anchors.size(); ++l) {
    levels.push_back({logits[l], deltas[l], anchors[l]});
  }
  return proposals_of(levels, kImage, rule);
}

std::vector<std::vector<float>> no_deltas(const std::vector<std::vector<Box>>& anchors) {
  std::vector<std::vector<float>> deltas;
  for (const auto& level : anchors) deltas.emplace_back(4 * level.size(), 0.0f);
  return deltas;
}

TEST(Proposals, BestOfLevelsAndThenOfAll) {
  const std::vector<std::vector<Box>> anchors = {
      {{0, 0, 10, 10}, {20, 0, 30, 10}, {40, 0, 50, 10}, {60, 0, 70, 10}},
      {{0, 0, 10, 10}, {20, 50, 60, 110}}};
  const std::vector<std::vector<float>> logits = {{-3, 2, 1, 4}, {3, -1}};
  const auto scores = [&](const ProposalRule& rule) {
    return best_of(anchors, logits, no_deltas(anchors), rule).scores;
  };
  EXPECT_EQ(scores(kTestingProposals), (std::vector<float>{4, 3, 2, 1, -1, -3}));
  EXPECT_EQ(scores({2}), (std::vector<float>{4, 3, 2, -1}));
  EXPECT_EQ(scores({2, 0.7, 3}), (std::vector<float>{4, 3, 2}));
  EXPECT_TRUE(scores({2, 0.7, 0}).empty());
  const Proposals all = best_of(anchors, logits, no_deltas(anchors), kTrainingProposals);
  EXPECT_EQ(all.boxes[1], anchors[1][0]) << "levels do not suppress one another";
  EXPECT_EQ(all.boxes[4], (Box{20, 50, 60, 100})) << "cut at the image, in its pixels";
}

TEST(Proposals, SuppressesWithinALevel) {
  // IoUs with the first box: 7 / 10, which is not above 0.7, and 8 / 10.
  const std::vector<std::vector<Box>> anchors = {{{0, 0, 10, 10}, {0, 0, 10, 7}, {0, 0, 10, 8}}};
  const Proposals best = best_of(anchors, {{3, 2, 1}}, no_deltas(anchors), kTrainingProposals);
  EXPECT_EQ(best.scores, (std::vector<float>{3, 2}));
}

TEST(Proposals, DropsBoxesWithoutSize) {
  // Outside of the image, at its border, and with an area after the cut.
  const std::vector<std::vector<Box>> anchors = {
      {{-30, 0, -5, 20}, {200, 0, 210, 20}, {0, 100, 20, 120}, {190, 90, 220, 120}}};
  const Proposals best = best_of(anchors, {{4, 3, 2, 1}}, no_deltas(anchors), kTrainingProposals);
  ASSERT_EQ(best.boxes.size(), 1u);
  EXPECT_EQ(best.boxes[0], (Box{190, 90, 200, 100}));
  EXPECT_EQ(best.scores, std::vector<float>{1});
}

TEST(Proposals, TiesKeepTheFirst) {
  const std::vector<std::vector<Box>> anchors = {{{0, 0, 10, 10}, {20, 0, 30, 10}},
                                                 {{0, 20, 10, 30}}};
  const Proposals best = best_of(anchors, {{1, 1}, {1}}, no_deltas(anchors), {1, 0.7, 1});
  ASSERT_EQ(best.boxes.size(), 1u);
  EXPECT_EQ(best.boxes[0], anchors[0][0]);
}

TEST(Proposals, HostileValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<Box>> anchors = {{{0, 0, 10, 10}, {20, 0, 30, 10}, {0, 50, 9, 60}}};
  for (const float z : {NAN, kInf, -kInf, 3e38f}) {
    for (const float d : {0.0f, NAN, kInf, -kInf, -3e38f}) {
      for (std::size_t at = 0; at < 4; ++at) {
        std::vector<std::vector<float>> deltas = no_deltas(anchors);
        deltas[0][at] = d;
        const Proposals best = best_of(anchors, {{z, NAN, 1}}, deltas, kTrainingProposals);
        ASSERT_EQ(best.boxes.size(), best.scores.size());
        ASSERT_GE(best.boxes.size(), 1u);
        ASSERT_LE(best.boxes.size(), 2u);
        bool has_sound = false;
        for (const Box& b : best.boxes) {
          has_sound |= b == anchors[0][2];
          EXPECT_TRUE(0 <= b.x1 && b.x1 < b.x2 && b.x2 <= 200) << z << " " << d;
          EXPECT_TRUE(0 <= b.y1 && b.y1 < b.y2 && b.y2 <= 100) << z << " " << d;
        }
        EXPECT_TRUE(has_sound);
        if (std::isnan(z)) {
          EXPECT_EQ(best.boxes.size(), 1u);
        }
      }
    }
  }
}

TEST(Proposals, RefusesSeveralClasses) {
  const std::vector<std::vector<Box>> anchors = {{{0, 0, 10, 10}}};
  EXPECT_THROW(best_of(anchors, {{1, 2}}, no_deltas(anchors), kTrainingProposals), Error);
}

}  // namespace
}  // namespace dtn::test
