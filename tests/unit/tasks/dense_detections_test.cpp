#include "tasks/detect/dense_detections.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dtn/core/check.h"

namespace dtn::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr ResizedImage kImage{100, 200, 50, 100};  // twice the original
const std::vector<Box> kAnchors = {{0, 0, 20, 20}, {40, 40, 60, 80}, {150, 50, 220, 90}};

float logit(double score) { return static_cast<float>(std::log(score / (1 - score))); }

// A level of K classes with deltas 0.
struct Level {
  std::vector<Box> anchors;
  std::vector<float> classes, deltas;

  Level(std::vector<Box> at, std::vector<float> logits)
      : anchors(std::move(at)), classes(std::move(logits)), deltas(4 * anchors.size(), 0.0f) {}
  DenseLevel view() const { return {classes, deltas, anchors}; }
};

std::vector<Detection> detect(const Level& level, const DetectionRule& rule = {}) {
  const DenseLevel view = level.view();
  return dense_detections({&view, 1}, kImage, rule);
}

TEST(DenseDetections, ScoresAboveThresholdInOriginalPixels) {
  const Level level(kAnchors, {logit(0.9), -9, logit(0.04), logit(0.06), -9, logit(0.3)});
  const std::vector<Detection> found = detect(level);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_FLOAT_EQ(found[0].score, 0.9f);
  EXPECT_EQ(found[0].label, 0);
  EXPECT_EQ(found[0].box, (Box{0, 0, 10, 10}));
  EXPECT_FLOAT_EQ(found[1].score, 0.3f);
  EXPECT_EQ(found[1].label, 1);
  EXPECT_EQ(found[1].box, (Box{75, 25, 100, 45})) << "cut at the resized image, then halved";
  EXPECT_FLOAT_EQ(found[2].score, 0.06f);
  EXPECT_EQ(found[2].label, 1);
}

TEST(DenseDetections, ScaleFactorsOfTheAxesDiffer) {
  const Level level(kAnchors, {-9, 2, -9});
  const DenseLevel levels[] = {level.view()};
  const std::vector<Detection> found = dense_detections(levels, {100, 200, 25, 100});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].box, (Box{20, 10, 30, 20}));
  EXPECT_EQ(in_resized(found[0].box, {100, 200, 25, 100}), kAnchors[1]);
}

// A score that equals the threshold is not above it; the next larger float is.
TEST(DenseDetections, ThresholdIsStrict) {
  const Level level({kAnchors[0]}, {0});
  EXPECT_TRUE(detect(level, {.score = 0.5f}).empty());
  EXPECT_EQ(detect(level, {.score = std::nextafter(0.5f, 0.0f)}).size(), 1u);
  // The short cut by logits gives what the sigmoids of all logits give.
  for (float score : {0.0f, 1e-6f, 0.05f, 0.5f, 0.95f, 1 - 0x1p-20f, 1 - 0x1p-24f}) {
    const double exact = std::log(static_cast<double>(score)) - std::log1p(-score);
    for (float z = -1; z <= 1; z += 0x1p-6f) {
      const auto near = static_cast<float>(std::isfinite(exact) ? exact + 1e-5 * z : -100 * z);
      const auto sigmoid = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(near))));
      EXPECT_EQ(detect(Level({kAnchors[0]}, {near}), {.score = score}).size(), sigmoid > score)
          << near << " for " << score;
    }
  }
  EXPECT_THROW(detect(level, {.score = 1}), Error);
  EXPECT_THROW(detect(level, {.score = NAN}), Error);
}

// The best class of an anchor decides its rank; then all its classes count.
TEST(DenseDetections, BestAnchorsOfEachLevel) {
  const Level first(kAnchors, {logit(0.3), logit(0.2), logit(0.1), logit(0.4), logit(0.35), -9});
  const Level second({kAnchors[2]}, {logit(0.1), logit(0.15)});
  const DenseLevel levels[] = {first.view(), second.view()};
  const std::vector<Detection> found = dense_detections(levels, kImage, {.per_level = 2});
  std::vector<float> scores;
  for (const Detection& d : found) scores.push_back(std::round(d.score * 100) / 100);
  // Anchor 0 with its best score of 0.3 is left out. The second level repeats anchor 2.
  EXPECT_EQ(scores, (std::vector<float>{0.4f, 0.35f, 0.15f, 0.1f}));
  EXPECT_EQ(dense_detections(levels, kImage, {.most = 1}).size(), 1u);
  // The first of equal scores stays.
  const std::vector<Detection> tied = detect(Level(kAnchors, {1, 1, 1}), {.per_level = 1});
  ASSERT_EQ(tied.size(), 1u);
  EXPECT_EQ(tied[0].box.x1, 0);
}

TEST(DenseDetections, SuppressesWithinAClass) {
  const Level level({kAnchors[0], kAnchors[0], kAnchors[0]}, {2, -9, 3, -9, -9, 1});
  const std::vector<Detection> found = detect(level);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].label, 0);
  EXPECT_EQ(found[1].label, 1);
  EXPECT_EQ(detect(level, {.overlap = 1}).size(), 3u);
}

TEST(DenseDetections, HostileValues) {
  const float logits[] = {NAN, kInf, -kInf, 1e38f, -1e38f, 5};
  const float deltas[] = {0, NAN, kInf, -kInf, 3e38f};
  for (const float z : logits) {
    for (const float d : deltas) {
      for (std::size_t at = 0; at < 4; ++at) {
        Level level(kAnchors, {z, z, 5, 4, NAN, z});
        level.deltas[at] = d;
        level.deltas[8 + at] = d;
        const std::vector<Detection> found = detect(level);
        EXPECT_LE(found.size(), 5u);
        bool has_second = false;
        for (const Detection& f : found) {
          EXPECT_TRUE(0 <= f.box.x1 && f.box.x1 <= f.box.x2 && f.box.x2 <= 100) << z << " " << d;
          EXPECT_TRUE(0 <= f.box.y1 && f.box.y1 <= f.box.y2 && f.box.y2 <= 50) << z << " " << d;
          EXPECT_TRUE(f.score > 0.05f && f.score <= 1);
          has_second |= f.box == Box{20, 20, 30, 40};
        }
        EXPECT_TRUE(has_second) << "the sound anchor stays";
      }
    }
  }
  EXPECT_TRUE(detect(Level(kAnchors, std::vector<float>(6, NAN))).empty());
  EXPECT_TRUE(dense_detections({}, kImage).empty());
  EXPECT_TRUE(detect(Level({}, {})).empty());
}

TEST(DenseDetections, RefusesSizesThatDoNotFit) {
  EXPECT_THROW(detect(Level(kAnchors, {1, 2, 3, 4})), Error);
  Level level(kAnchors, {1, 2, 3});
  level.deltas.pop_back();
  EXPECT_THROW(detect(level), Error);
}

}  // namespace
}  // namespace dtn::test
