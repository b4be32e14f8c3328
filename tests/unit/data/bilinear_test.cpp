#include "data/sample/bilinear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace dtn {
namespace {

Image random_image(int width, int height, int channels) {
  Image image{width, height, channels, {}};
  std::mt19937 random(7);
  image.pixels.resize(static_cast<std::size_t>(width * height * channels));
  for (auto& pixel : image.pixels) pixel = static_cast<std::uint8_t>(random());
  return image;
}

// The value of a channel at a point of the source, whose pixel i has its centre at i.
double value_at(const Image& image, double y, double x, int c) {
  y = std::clamp(y, 0.0, image.height - 1.0);
  x = std::clamp(x, 0.0, image.width - 1.0);
  const int y0 = static_cast<int>(y), x0 = static_cast<int>(x);
  const int y1 = std::min(y0 + 1, image.height - 1), x1 = std::min(x0 + 1, image.width - 1);
  const auto at = [&](int yy, int xx) -> double {
    return image.pixels[static_cast<std::size_t>((yy * image.width + xx) * image.channels + c)];
  };
  const double fy = y - y0, fx = x - x0;
  return (1 - fy) * ((1 - fx) * at(y0, x0) + fx * at(y0, x1)) +
         fy * ((1 - fx) * at(y1, x0) + fx * at(y1, x1));
}

TEST(Bilinear, IsTheFormulaForGrowingAndShrinking) {
  BilinearWorkspace workspace;
  for (const int channels : {1, 3}) {
    const Image image = random_image(37, 23, channels);
    for (const auto& [height, width] : {std::pair{23, 37}, {41, 50}, {11, 12}, {1, 100}, {60, 1}}) {
      std::vector<std::uint8_t> out(static_cast<std::size_t>(height * width * channels));
      resize_bilinear(image, height, width, false, workspace, out.data());
      for (int y = 0, k = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
          for (int c = 0; c < channels; ++c, ++k) {
            const double exact =
                value_at(image, (y + 0.5) * 23 / height - 0.5, (x + 0.5) * 37 / width - 0.5, c);
            ASSERT_LT(std::abs(out[static_cast<std::size_t>(k)] - exact), 0.501)
                << height << " x " << width << " at " << y << ", " << x;
          }
    }
  }
}

TEST(Bilinear, SameSizeIsTheSameImage) {
  const Image image = random_image(19, 8, 3);
  BilinearWorkspace workspace;
  std::vector<std::uint8_t> out(image.pixels.size());
  resize_bilinear(image, 8, 19, false, workspace, out.data());
  EXPECT_EQ(out, image.pixels);
}

TEST(Bilinear, FlipMirrorsTheResult) {
  const Image image = random_image(19, 8, 3);
  BilinearWorkspace workspace;
  std::vector<std::uint8_t> plain(13 * 31 * 3), mirrored(plain.size());
  resize_bilinear(image, 13, 31, false, workspace, plain.data());
  resize_bilinear(image, 13, 31, true, workspace, mirrored.data());
  for (std::size_t y = 0; y < 13; ++y)
    for (std::size_t x = 0; x < 31; ++x)
      for (std::size_t c = 0; c < 3; ++c) {
        ASSERT_EQ(mirrored[(y * 31 + x) * 3 + c], plain[(y * 31 + 30 - x) * 3 + c]);
      }
}

}  // namespace
}  // namespace dtn
