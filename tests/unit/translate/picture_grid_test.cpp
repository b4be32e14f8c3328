#include "tasks/translate/picture_grid.h"

#include "dtn/core/check.h"
#include "tasks/translate/mirrored_border.h"
#include "tensors.h"

namespace dtn::test {
namespace {

Tensor filled(const Shape& shape, float value) {
  return Tensor::full(shape, DType::kFloat32, value);
}

TEST(PictureGrid, HasARowForEachSampleAndNoBorder) {
  Tensor input = filled({2, 1, 2, 3}, 0), output = filled({2, 3, 2, 3}, 0);
  input.data<float>()[6] = 0.5f;  // sample 1, first pixel
  for (int k = 0; k < 3; ++k) output.data<float>()[k * 6] = 0.2f * static_cast<float>(k + 1);
  output.data<float>()[1] = 1.7f;   // clamped
  output.data<float>()[2] = -0.3f;  // clamped
  output.data<float>()[3] = NAN;
  const Image grid = picture_grid({input, output}, 5);
  ASSERT_EQ(grid.width, 6);
  ASSERT_EQ(grid.height, 4);
  ASSERT_EQ(grid.channels, 3);
  const auto pixel = [&](int x, int y) {
    const std::uint8_t* at = grid.pixels.data() + (y * grid.width + x) * 3;
    return std::vector<int>{at[0], at[1], at[2]};
  };
  EXPECT_EQ(pixel(0, 2), (std::vector<int>{128, 128, 128}));  // grey in all three channels
  EXPECT_EQ(pixel(3, 0), (std::vector<int>{51, 102, 153}));
  EXPECT_EQ(pixel(4, 0)[0], 255);
  EXPECT_EQ(pixel(5, 0)[0], 0);
  EXPECT_EQ(pixel(3, 1)[0], 0);
  EXPECT_EQ(picture_grid({input, output}, 1).height, 2);
}

TEST(PictureGrid, IsGrayIfAllColumnsAre) {
  EXPECT_EQ(picture_grid({filled({1, 1, 2, 2}, 1), filled({1, 1, 2, 2}, 0)}, 1).channels, 1);
}

// Maps of classes have a colour for each class.
TEST(PictureGrid, ShowsOtherChannelsAsColors) {
  Tensor map = filled({1, 4, 1, 2}, 0);
  map.data<float>()[0] = 1;          // pixel 0 is class 0
  map.data<float>()[2 * 2 + 1] = 1;  // pixel 1 is class 2
  const Image grid = picture_grid({map}, 1);
  ASSERT_EQ(grid.channels, 3);
  const std::vector<std::uint8_t> first(grid.pixels.begin(), grid.pixels.begin() + 3);
  const std::vector<std::uint8_t> second(grid.pixels.begin() + 3, grid.pixels.end());
  EXPECT_NE(first, second);
}

TEST(PictureGrid, RefusesColumnsThatDoNotFit) {
  EXPECT_THROW(picture_grid({filled({2, 1, 2, 2}, 0), filled({1, 1, 2, 2}, 0)}, 1), Error);
  EXPECT_THROW(picture_grid({filled({1, 1, 2, 2}, 0), filled({1, 1, 2, 3}, 0)}, 1), Error);
  EXPECT_THROW(picture_grid({}, 1), Error);
}

TEST(MirroredBorder, ContinuesWithoutTheEdge) {
  const Tensor row = Tensor::from(std::vector<float>{1, 2, 3}, {1, 1, 1, 3});
  const Tensor wide = with_mirrored_border(row, 8);
  ASSERT_EQ(wide.shape(), Shape({1, 1, 8, 8}));
  EXPECT_EQ(doubles(wide.slice(0, 1)).size(), 64u);
  const Doubles all = doubles(wide);
  EXPECT_EQ(Doubles(all.begin(), all.begin() + 8), (Doubles{1, 2, 3, 2, 1, 2, 3, 2}));
  EXPECT_EQ(Doubles(all.end() - 8, all.end()), Doubles(all.begin(), all.begin() + 8));
  EXPECT_EQ(doubles(without_border(wide, 1, 3)), doubles(row));
}

TEST(MirroredBorder, LeavesMultiplesAlone) {
  const Tensor pictures = as(random_tensor({2, 3, 4, 8}, 1), DType::kFloat32);
  EXPECT_EQ(doubles(with_mirrored_border(pictures, 4)), doubles(pictures));
}

}  // namespace
}  // namespace dtn::test
