#include "tasks/detect/roi_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "dtn/core/check.h"
#include "unit/boxes/random_boxes.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kBackgroundLabel = 9;

constexpr SampleKey kKey{5, 2, 11};

RoiSamples sampled(std::span<const Box> proposals, const RoiTruths& truths, std::int64_t most = 512,
                   const SampleKey& key = kKey) {
  return roi_samples(proposals, truths, {.classes = kBackgroundLabel, .sampling = {most, most / 4}},
                     key);
}

std::set<std::array<float, 4>> set_of(std::span<const Box> boxes) {
  std::set<std::array<float, 4>> all;
  for (const Box& b : boxes) all.insert({b.x1, b.y1, b.x2, b.y2});
  return all;
}

TEST(RoiSamples, TruthsAreRegions) {
  const std::vector<Box> truths = {{0, 0, 20, 20}, {50, 50, 70, 90}};
  const std::vector<std::int64_t> classes = {3, 7};
  // IoU 0.75 with truth 1; 0.45 with truth 0; nothing.
  const std::vector<Box> proposals = {{50, 50, 70, 80}, {0, 0, 20, 9}, {100, 0, 110, 10}};
  const RoiSamples samples = sampled(proposals, {truths, classes}, 40);
  EXPECT_EQ(samples.boxes,
            (std::vector<Box>{truths[0], truths[1], proposals[0], proposals[1], proposals[2]}));
  EXPECT_EQ(samples.labels, (std::vector<std::int64_t>{3, 7, 7, 9, 9}));
  EXPECT_EQ(samples.truths, (std::vector<std::int64_t>{0, 1, 1}));
  ASSERT_EQ(samples.deltas.size(), 3u);
  EXPECT_EQ(samples.deltas[0], (BoxDeltas{0, 0, 0, 0}));
  const BoxDeltas& deltas = samples.deltas[2];
  EXPECT_EQ(deltas[0], 0);
  EXPECT_FLOAT_EQ(deltas[1], 5.0f / 30 / 0.1f) << "the centre moves by 5 of 30 pixels";
  EXPECT_EQ(deltas[2], 0);
  EXPECT_FLOAT_EQ(deltas[3], static_cast<float>(std::log(40.0 / 30) / 0.2));
}

TEST(RoiSamples, PositivesComeFirst) {
  const std::vector<Box> truths = {{0, 0, 20, 20}}, proposals = {{40, 0, 60, 20}, {0, 0, 20, 19}};
  const std::vector<std::int64_t> classes = {4};
  const RoiSamples samples = sampled(proposals, {truths, classes});
  EXPECT_EQ(samples.boxes, (std::vector<Box>{truths[0], proposals[1], proposals[0]}));
  EXPECT_EQ(samples.labels, (std::vector<std::int64_t>{4, 4, 9}));
}

TEST(RoiSamples, AQuarterAtMostIsPositive) {
  const std::vector<Box> truths = {{0, 0, 30, 30}};
  const std::vector<std::int64_t> classes = {0};
  std::vector<Box> proposals = random_boxes(3000, 1, 400, 30);
  for (int i = 1; i <= 200; ++i) proposals.push_back({static_cast<float>(i) / 100, 0, 30, 30});
  const RoiSamples samples = sampled(proposals, {truths, classes});
  EXPECT_EQ(samples.boxes.size(), 512u);
  EXPECT_EQ(samples.truths, std::vector<std::int64_t>(128, 0));
  EXPECT_EQ(samples.deltas.size(), 128u);
  EXPECT_EQ(std::ranges::count(samples.labels, kBackgroundLabel), 384);
  EXPECT_EQ(set_of(samples.boxes).size(), 512u) << "without replacement";
  for (std::size_t i = 0; i < samples.boxes.size(); ++i) {
    EXPECT_EQ(samples.labels[i] == 0, iou(samples.boxes[i], truths[0]) >= 0.5f) << i;
  }
  EXPECT_EQ(sampled(proposals, {truths, classes}).boxes, samples.boxes);
  EXPECT_NE(sampled(proposals, {truths, classes}, 512, {5, 3, 11}).boxes, samples.boxes);
}

TEST(RoiSamples, ImageWithoutTruths) {
  const std::vector<Box> proposals = random_boxes(100, 1, 100, 30);
  const RoiSamples samples = sampled(proposals, {});
  EXPECT_EQ(samples.boxes, proposals);
  EXPECT_EQ(samples.labels, std::vector<std::int64_t>(100, kBackgroundLabel));
  EXPECT_TRUE(samples.truths.empty());
  EXPECT_TRUE(samples.deltas.empty());
  EXPECT_TRUE(sampled({}, {}).boxes.empty());
  EXPECT_THROW(sampled({}, {proposals, {}}), Error);
}

}  // namespace
}  // namespace dtn::test
