#include "tasks/boxes/anchors.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dtn::test {
namespace {

TEST(Anchors, CountsOfTwoHeads) {
  const auto dense = retinanet_anchors();
  const auto grids = grids_of(dense, 800, 1344);
  EXPECT_EQ(grids, (std::vector<CellGrid>{{100, 168}, {50, 84}, {25, 42}, {13, 21}, {7, 11}}));
  EXPECT_EQ(anchors_of(dense, grids).size(), 9u * (16800 + 4200 + 1050 + 273 + 77));
  const auto proposals = rpn_anchors();
  EXPECT_EQ(grids_of(proposals, 800, 1344)[0], (CellGrid{200, 336}));
  EXPECT_EQ(cell_anchors(proposals[0]).size(), 3u);
}

TEST(Anchors, SizesAndRatiosRatioMajor) {
  const AnchorLevel level = retinanet_anchors()[1];
  ASSERT_EQ(level.stride, 16);
  const std::vector<Box> cell = cell_anchors(level);
  const double ratios[] = {0.5, 1, 2}, octaves[] = {0, 1.0 / 3, 2.0 / 3};
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t s = 0; s < 3; ++s) {
      const Box& a = cell[r * 3 + s];
      const double size = 64 * std::exp2(octaves[s]);
      EXPECT_NEAR(a.x2 - a.x1, size / std::sqrt(ratios[r]), 1e-4);
      EXPECT_NEAR(a.y2 - a.y1, size * std::sqrt(ratios[r]), 1e-4);
      EXPECT_EQ(a.x1, -a.x2);
      EXPECT_EQ(a.y1, -a.y2);
    }
  }
  const Box wide = cell_anchors(rpn_anchors()[0])[0];
  EXPECT_NEAR(wide.x2, 32 * std::sqrt(2.0) / 2, 1e-5);
  EXPECT_NEAR(wide.y2, 32 / std::sqrt(2.0) / 2, 1e-5);
}

TEST(Anchors, OrderedLevelRowColumn) {
  const std::vector<AnchorLevel> levels = {{8, {16}, {1, 4}}, {16, {32}, {1, 4}}};
  const std::vector<Box> all = anchors_of(levels, {{2, 3}, {1, 2}});
  ASSERT_EQ(all.size(), 2u * (6 + 2));
  // Row 1, column 2 of the first level: centred on (16, 8), the corner of the cell.
  EXPECT_EQ(all[(1 * 3 + 2) * 2], (Box{8, 0, 24, 16}));
  EXPECT_EQ(all[(1 * 3 + 2) * 2 + 1], (Box{12, -8, 20, 24}));
  EXPECT_EQ(all[12 + 1 * 2], (Box{0, -16, 32, 16}));
}

TEST(Anchors, CellsOutsideOwnImageDoNotCount) {
  const std::vector<AnchorLevel> levels = {{8, {16}, {1, 4}}, {16, {32}, {1, 4}}};
  const auto batch = grids_of(levels, 32, 32), own = grids_of(levels, 17, 32);
  EXPECT_EQ(own, (std::vector<CellGrid>{{3, 4}, {2, 2}}));
  const std::vector<std::uint8_t> inside = anchors_inside(levels, batch, own);
  ASSERT_EQ(inside.size(), 2u * (16 + 4));
  for (std::size_t i = 0; i < inside.size(); ++i) EXPECT_EQ(inside[i], i < 24 || i >= 32) << i;
}

}  // namespace
}  // namespace dtn::test
