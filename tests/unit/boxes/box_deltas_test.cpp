#include "tasks/boxes/box_deltas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "unit/boxes/random_boxes.h"

namespace dtn::test {
namespace {

void expect_near(const Box& got, const Box& want, double bound) {
  EXPECT_NEAR(got.x1, want.x1, bound);
  EXPECT_NEAR(got.y1, want.y1, bound);
  EXPECT_NEAR(got.x2, want.x2, bound);
  EXPECT_NEAR(got.y2, want.y2, bound);
}

TEST(BoxDeltas, Encode) {
  const Box anchor{10, 20, 30, 60}, box{15, 20, 55, 30};  // centres (20, 40) and (35, 25)
  const BoxDeltas d = encode_box(anchor, box);
  EXPECT_FLOAT_EQ(d[0], 15.0f / 20);
  EXPECT_FLOAT_EQ(d[1], -15.0f / 40);
  EXPECT_FLOAT_EQ(d[2], std::log(2.0f));
  EXPECT_FLOAT_EQ(d[3], std::log(0.25f));
  const BoxDeltas scaled = encode_box(anchor, box, kRoiUnits);
  EXPECT_FLOAT_EQ(scaled[0], 7.5f);
  EXPECT_FLOAT_EQ(scaled[1], -3.75f);
  EXPECT_FLOAT_EQ(scaled[2], 5 * std::log(2.0f));
  EXPECT_FLOAT_EQ(scaled[3], 5 * std::log(0.25f));
}

TEST(BoxDeltas, DecodeInvertsEncode) {
  // Sides differ by less than the factor at which sizes are clamped.
  const auto anchors = random_boxes(200, 1, 300, 50), boxes = random_boxes(200, 2, 300, 50);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (const DeltaUnits& units : {kDenseUnits, kRoiUnits}) {
      expect_near(decode_box(anchors[i], encode_box(anchors[i], boxes[i], units), units), boxes[i],
                  3e-4);
    }
  }
}

TEST(BoxDeltas, DecodeClampsSizes) {
  const Box anchor{0, 0, 16, 16};
  expect_near(decode_box(anchor, {0, 0, 50, -50}), {-492, 8 - 0.128f, 508, 8 + 0.128f}, 1e-3);
  // The clamp is on dw times its unit.
  const auto limit = static_cast<float>(std::log(1000.0 / 16));
  expect_near(decode_box(anchor, {0, 0, limit, 0}, kRoiUnits),
              {8 - 8 * std::exp(limit / 5), 0, 8 + 8 * std::exp(limit / 5), 16}, 1e-3);
  expect_near(decode_box(anchor, {0, 0, 6 * limit, 0}, kRoiUnits), {-492, 0, 508, 16}, 1e-3);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  expect_near(decode_box(anchor, {0, 0, kInf, -kInf}), {-492, 8 - 0.128f, 508, 8 + 0.128f}, 1e-3);
}

}  // namespace
}  // namespace dtn::test
