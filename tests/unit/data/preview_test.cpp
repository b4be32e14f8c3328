#include "data/sample/preview.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dtn {
namespace {

TEST(Preview, UndoesNormalization) {
  // One row of two pixels, three channels.
  const std::vector<float> image = {0, 1, -1, 0, 2, 100};
  const std::vector<float> mean = {0.5F, 0.5F, 0.2F}, std = {0.25F, 0.5F, 0.1F};
  const Image out = preview_of(image.data(), 3, {1, 2}, mean, std);
  EXPECT_EQ(out.width, 2);
  EXPECT_EQ(out.height, 1);
  EXPECT_EQ(out.pixels, (std::vector<std::uint8_t>{128, 0, 102, 191, 128, 255}));
}

TEST(Preview, ShowsGrayAsRgbAndScalesUnknownRange) {
  const std::vector<float> image = {-3, std::numeric_limits<float>::quiet_NaN(), 5};
  const Image out = preview_of(image.data(), 1, {1, 3}, {}, {});
  EXPECT_EQ(out.pixels, (std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 255, 255, 255}));
}

TEST(Preview, ReducesTheLongerSideByMeans) {
  const Image wide{4, 2, 1, {0, 100, 200, 200, 100, 200, 0, 0}};
  const Image small = reduced_to(wide, 2);
  EXPECT_EQ(small.width, 2);
  EXPECT_EQ(small.height, 1);
  EXPECT_EQ(small.pixels, (std::vector<std::uint8_t>{100, 100}));
  EXPECT_EQ(reduced_to(wide, 4).pixels, wide.pixels);
  EXPECT_EQ(reduced_to(Image{3, 1, 1, {9, 9, 9}}, 1).pixels, (std::vector<std::uint8_t>{9}));
}

TEST(Preview, MosaicsSeparateImagesByGap) {
  const Image black{1, 1, 3, {0, 0, 0}}, red{1, 1, 3, {255, 0, 0}};
  const std::vector<Image> images = {black, red, red};
  const Image out = mosaic_of(images, 2);
  EXPECT_EQ(out.width, 4);
  EXPECT_EQ(out.height, 4);
  const auto pixel = [&](int x, int y) {
    const std::size_t at = static_cast<std::size_t>(y * 4 + x) * 3;
    return std::vector<int>(out.pixels.begin() + static_cast<std::ptrdiff_t>(at),
                            out.pixels.begin() + static_cast<std::ptrdiff_t>(at) + 3);
  };
  EXPECT_EQ(pixel(0, 0), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(pixel(3, 0), (std::vector<int>{255, 0, 0}));
  EXPECT_EQ(pixel(0, 3), (std::vector<int>{255, 0, 0}));
  EXPECT_EQ(pixel(1, 0), (std::vector<int>{255, 255, 255}));
  EXPECT_EQ(pixel(3, 3), (std::vector<int>{255, 255, 255}));
}

// Two large images, then four small ones in two columns of two, with gaps of two pixels.
TEST(Preview, SheetsStackSmallImages) {
  const auto image = [](int side, std::uint8_t value) {
    return Image{side, side, 3,
                 std::vector<std::uint8_t>(static_cast<std::size_t>(3 * side * side), value)};
  };
  const std::vector<std::vector<Image>> rows = {
      {image(6, 1), image(6, 2), image(2, 3), image(2, 4), image(2, 5), image(2, 6)},
      {image(3, 7)}};
  const Image out = sheet_of(rows);
  EXPECT_EQ(out.width, 6 + 2 + 6 + 2 + 2 + 2 + 2);
  EXPECT_EQ(out.height, 6 + 2 + 3);
  const auto at = [&](int x, int y) {
    return out.pixels[static_cast<std::size_t>(y * out.width + x) * 3];
  };
  EXPECT_EQ(at(5, 5), 1);
  EXPECT_EQ(at(8, 0), 2);
  EXPECT_EQ(at(16, 0), 3);
  EXPECT_EQ(at(17, 5), 4);
  EXPECT_EQ(at(20, 1), 5);
  EXPECT_EQ(at(21, 4), 6);
  EXPECT_EQ(at(0, 8), 7);
  EXPECT_EQ(at(6, 0), 255);
  EXPECT_EQ(at(16, 2), 255);
  EXPECT_EQ(at(20, 8), 255);
}

}  // namespace
}  // namespace dtn
