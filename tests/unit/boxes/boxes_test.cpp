#include "tasks/boxes/boxes.h"

#include <gtest/gtest.h>

#include <array>

#include "unit/boxes/random_boxes.h"

namespace dtn::test {
namespace {

TEST(Boxes, IouIsIntersectionOverUnion) {
  const Box a{0, 0, 4, 2}, b{1, 1, 5, 3};
  EXPECT_EQ(iou(a, b), 3.0f / 13);
  EXPECT_EQ(iou(a, a), 1);
  EXPECT_EQ(iou(a, {4, 0, 8, 2}), 0) << "they only touch";
  EXPECT_EQ(iou(a, {10, 10, 11, 11}), 0);
  EXPECT_EQ(iou(a, {1, 1, 1, 2}), 0) << "no area";
  EXPECT_EQ(iou({1, 1, 1, 1}, {1, 1, 1, 1}), 0) << "0 / 0";
  EXPECT_EQ(iou({0, 0, 1e-4f, 1e-4f}, {0, 0, 1e-4f, 1e-4f}), 1e-4f * 1e-4f / 1e-6f)
      << "the union is at least 1e-6";
}

// Every loop gives the bits of float32 operations in the documented order. Each is stored to memory
// that the compiler cannot see through, so nothing can be contracted.
TEST(Boxes, LoopsHaveFixedArithmetic) {
  const std::vector<Box> boxes = random_boxes(1000, 1, 100, 60);
  const BoxColumns columns(boxes);
  std::vector<float> overlap(boxes.size());
  int touching = 0;
  for (std::size_t i = 0; i < 50; ++i) {
    ious_with(boxes[i], columns, 3, boxes.size() - 3, overlap.data());
    for (std::size_t k = 3; k < boxes.size(); ++k) {
      const float want = plain_iou(boxes[i], boxes[k]);
      ASSERT_EQ(overlap[k - 3], want) << i << ", " << k;
      ASSERT_EQ(iou(boxes[i], boxes[k]), want);
      ASSERT_EQ(iou(boxes[k], boxes[i]), want);
      touching += want > 0;
    }
  }
  EXPECT_GT(touching, 1000);
}

TEST(Boxes, OverlapsAnyIsStrict) {
  const BoxColumns columns(std::vector<Box>{{9, 9, 10, 10}, {0, 0, 2, 2}, {50, 50, 60, 60}});
  const Box box{0, 0, 2, 1};  // IoU 1/2 with the second
  EXPECT_TRUE(overlaps_any(box, columns, 0, 3, 0.49f));
  EXPECT_FALSE(overlaps_any(box, columns, 0, 3, 0.5f));
  EXPECT_FALSE(overlaps_any(box, columns, 2, 1, 0.0f));
  EXPECT_FALSE(overlaps_any(box, columns, 0, 0, 0.0f));
  std::vector<Box> many(200, Box{50, 50, 60, 60});
  many[199] = box;
  EXPECT_TRUE(overlaps_any(box, BoxColumns(many), 0, 200, 0.9f)) << "the last of many";
  EXPECT_FALSE(overlaps_any(box, BoxColumns(many), 0, 199, 0.0f));
}

TEST(Boxes, ClipCutsAtImage) {
  EXPECT_EQ(clip_box({-3, -1, 12, 30}, 10, 20), (Box{0, 0, 10, 20}));
  EXPECT_EQ(clip_box({2, 3, 4, 5}, 10, 20), (Box{2, 3, 4, 5}));
  EXPECT_EQ(clip_box({11, 21, 14, 25}, 10, 20), (Box{10, 20, 10, 20}));
}

}  // namespace
}  // namespace dtn::test
