#include "tasks/detect/roi_detections.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dtn/core/check.h"

namespace dtn::test {
namespace {

constexpr ResizedImage kImage{100, 200, 50, 50};  // factors: x 4, y 2
const std::vector<Box> kProposals = {{0, 0, 20, 20}, {40, 40, 60, 80}};

// Logits whose softmax is the given scores.
std::vector<float> logits_of(const std::vector<double>& scores) {
  std::vector<float> logits;
  for (double s : scores) logits.push_back(static_cast<float>(std::log(s) + 3));
  return logits;
}

TEST(RoiDetections, SoftmaxAndTheBoxOfTheClass) {
  const std::vector<float> classes = logits_of({0.5, 0.2, 0.3, 0.03, 0.07, 0.9});
  std::vector<float> deltas(16, 0.0f);
  deltas[4 * 1 + 0] = 5;  // proposal 0, class 1: dx 0.5
  deltas[8 + 4 * 1 + 3] =
      5 * static_cast<float>(std::log(2));  // proposal 1, class 1: twice as high
  const std::vector<Detection> found = roi_detections({kProposals, classes, deltas}, kImage);
  ASSERT_EQ(found.size(), 3u) << "neither the background nor scores below 0.05";
  EXPECT_NEAR(found[0].score, 0.5, 1e-6);
  EXPECT_EQ(found[0].label, 0);
  EXPECT_EQ(found[0].box, (Box{0, 0, 5, 10}));
  EXPECT_NEAR(found[1].score, 0.2, 1e-6);
  EXPECT_EQ(found[1].label, 1);
  EXPECT_EQ(found[1].box, (Box{2.5f, 0, 7.5f, 10}));
  EXPECT_NEAR(found[2].score, 0.07, 1e-6);
  EXPECT_EQ(found[2].label, 1);
  EXPECT_NEAR(found[2].box.y1, 10, 1e-4) << "40 to 80 becomes 20 to 100, which is cut at 100";
  EXPECT_NEAR(found[2].box.y2, 50, 1e-4);
  EXPECT_EQ(in_resized(found[1].box, kImage), (Box{10, 0, 30, 20}));
}

TEST(RoiDetections, SuppressesWithinAClass) {
  const std::vector<Box> same(3, kProposals[0]);
  const std::vector<float> classes = logits_of({0.5, 0.2, 0.3, 0.6, 0.1, 0.3, 0.1, 0.4, 0.5});
  const std::vector<float> deltas(24, 0.0f);
  const std::vector<Detection> found = roi_detections({same, classes, deltas}, kImage);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found[0].score, 0.6, 1e-6);
  EXPECT_NEAR(found[1].score, 0.4, 1e-6);
  EXPECT_EQ(roi_detections({same, classes, deltas}, kImage, {.most = 1}).size(), 1u);
}

TEST(RoiDetections, HostileValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float z : {NAN, kInf, -kInf, 3e38f, -3e38f}) {
    for (const float d : {0.0f, NAN, kInf, -kInf, 3e38f}) {
      for (std::size_t at = 0; at < 4; ++at) {
        for (std::size_t k = 0; k < 3; ++k) {
          std::vector<float> classes = {1, 2, 0, 5, 0, 0}, deltas(16, 0.0f);
          classes[k] = z;
          deltas[at] = d;
          const std::vector<Detection> found =
              roi_detections({kProposals, classes, deltas}, kImage);
          bool has_sound = false;
          for (const Detection& f : found) {
            EXPECT_TRUE(f.score > 0.05f && f.score <= 1);
            EXPECT_TRUE(0 <= f.box.x1 && f.box.x1 <= f.box.x2 && f.box.x2 <= 50);
            EXPECT_TRUE(0 <= f.box.y1 && f.box.y1 <= f.box.y2 && f.box.y2 <= 50);
            has_sound |= f.box == Box{10, 20, 15, 40};
            if (std::isnan(z) || z == kInf) {
              EXPECT_EQ(f.box, (Box{10, 20, 15, 40}));
            }
          }
          EXPECT_TRUE(has_sound);
        }
      }
    }
  }
  // A class that is impossible leaves the others.
  const std::vector<float> classes = {-kInf, 2, 0}, deltas(8, 0.0f);
  const std::vector<Box> one = {kProposals[0]};
  const std::vector<Detection> found = roi_detections({one, classes, deltas}, kImage);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].label, 1);
  EXPECT_TRUE(roi_detections({{}, {}, {}}, kImage).empty());
}

TEST(RoiDetections, RefusesSizesThatDoNotFit) {
  const std::vector<float> six(6, 1.0f), five(5, 1.0f), two(2, 1.0f), deltas(16, 0.0f);
  EXPECT_THROW(roi_detections({kProposals, five, deltas}, kImage), Error);
  EXPECT_THROW(roi_detections({kProposals, six, six}, kImage), Error);
  EXPECT_THROW(roi_detections({kProposals, two, {}}, kImage), Error) << "only the background";
}

TEST(RoiLevel, BySquareRootOfTheArea) {
  const auto square = [](float side) { return roi_level({3, 5, 3 + side, 5 + side}); };
  EXPECT_EQ(square(1), 0);
  EXPECT_EQ(square(111.9f), 0);
  EXPECT_EQ(square(112), 1);
  EXPECT_EQ(square(223.9f), 1);
  EXPECT_EQ(square(224), 2);
  EXPECT_EQ(square(448), 3);
  EXPECT_EQ(square(2000), 3);
  EXPECT_EQ(roi_level({0, 0, 56, 224}), 1) << "sqrt(56 x 224) is 112";
  EXPECT_EQ(square(112 - 1e-5f), 1) << "1e-6 of 56 pixels is added";
  EXPECT_EQ(roi_level({0, 0, 0, 10}), 0);
  EXPECT_EQ(roi_level({0, 0, NAN, 10}), 0);
  EXPECT_EQ(roi_level({5, 0, 0, 10}), 0);
}

}  // namespace
}  // namespace dtn::test
