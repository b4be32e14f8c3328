#include "data/sample/resample.h"

#include <gtest/gtest.h>

#include <random>

#include "data/sample/instruction_set.h"
#include "dtn/core/check.h"
#include "golden/data/fixtures.h"
#include "resized.h"

namespace dtn {
namespace {

using golden::procedural_image;

// Compares with Pillow, whose order of passes is `order`; see golden/make_pillow_fixtures.py.
void expect_pillow(const std::string& file, Resample order) {
  for (int level : {0, 1, 2}) {
    limit_instruction_set(level);
    auto table = golden::open_table(file);
    std::uint32_t seed, expected;
    int width, height, channels, out_width, out_height, cases = 0;
    std::string filter;
    double x0, y0, x1, y1;
    while (table >> seed >> width >> height >> channels >> filter >> x0 >> y0 >> x1 >> y1 >>
           out_width >> out_height >> expected) {
      const Image image = procedural_image(seed, width, height, channels);
      const Image out = resize_box(image, x0, y0, x1, y1, out_width, out_height,
                                   {golden::filter_named(filter), order});
      ASSERT_EQ(out.width, out_width);
      ASSERT_EQ(out.height, out_height);
      EXPECT_EQ(golden::crc(out), expected) << "case " << seed << ", instruction set " << level;
      ++cases;
    }
    EXPECT_EQ(cases, 480);
  }
  limit_instruction_set(2);
}

TEST(Resample, EqualsPillow12BitForBitOnEveryInstructionSet) {
  expect_pillow("resample_pillow12.txt", Resample::kPillow12);
}

TEST(Resample, EqualsPillow13BitForBitOnEveryInstructionSet) {
  expect_pillow("resample_pillow13.txt", Resample::kPillow13);
}

// Tall images here lose more than twice as many rows as columns.
TEST(Resample, OrderMattersForTallImagesOnly) {
  const auto differ = [](int width, int height, int to_width, int to_height) {
    const Image image = procedural_image(0, width, height);
    const auto pixels = [&](Resample order) {
      return resize(image, to_width, to_height, {Interpolation::kBicubic, order}).pixels;
    };
    return pixels(Resample::kPillow13) != pixels(Resample::kPillow12);
  };
  EXPECT_TRUE(differ(40, 61, 30, 40));   // 10 columns and 21 rows fewer
  EXPECT_FALSE(differ(40, 60, 30, 40));  // 10 and 20
  EXPECT_TRUE(differ(40, 41, 50, 40));   // wider, and a row fewer
  EXPECT_FALSE(differ(40, 40, 50, 41));  // larger
  EXPECT_FALSE(differ(60, 40, 30, 20));
}

TEST(Resample, WholeBoxEqualsNoBox) {
  const Image image = procedural_image(2, 50, 31);
  for (auto filter : {Interpolation::kBilinear, Interpolation::kBicubic})
    EXPECT_EQ(resize(image, 20, 44, filter).pixels,
              resize_box(image, 0, 0, 50, 31, 20, 44, filter).pixels);
}

TEST(Resample, KeepsConstantImagesAndCopiesAtSameSize) {
  const Image image = procedural_image(0, 17, 23);
  EXPECT_EQ(resize(image, 17, 23, Interpolation::kBicubic).pixels, image.pixels);
  for (int value : {0, 1, 128, 255}) {
    const Image flat{33, 40, 1,
                     std::vector<std::uint8_t>(33 * 40, static_cast<std::uint8_t>(value))};
    for (auto filter : {Interpolation::kBilinear, Interpolation::kBicubic})
      for (std::uint8_t pixel : resize(flat, 70, 9, filter).pixels) ASSERT_EQ(pixel, value);
  }
}

Image cut(const Image& image, const ImageRegion& r) {
  Image out{r.x1 - r.x0, r.y1 - r.y0, image.channels, {}};
  for (int y = r.y0; y < r.y1; ++y) {
    const auto row = image.pixels.begin() +
                     (static_cast<std::ptrdiff_t>(y) * image.width + r.x0) * image.channels;
    out.pixels.insert(out.pixels.end(), row, row + out.width * image.channels);
  }
  return out;
}

ImageRegion random_region(std::mt19937& random, int width, int height) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int x0 = pick(width), y0 = pick(height);
  return {x0, y0, x0 + 1 + pick(width - x0), y0 + 1 + pick(height - y0)};
}

// One workspace for all cases, so that a stale weight or buffer would have an effect.
TEST(Resample, WindowEqualsCropOfWholeResult) {
  std::mt19937 random(7);
  ResampleWorkspace workspace;
  for (int i = 0; i < 300; ++i) {
    const auto size = [&] { return 1 + static_cast<int>(random() % 90); };
    const Image source =
        procedural_image(static_cast<std::uint32_t>(i), size(), size(), i % 2 ? 3 : 1);
    ResizeWindow target{i % 5 ? size() : source.width, i % 7 ? size() : source.height, {}};
    target.window = random_region(random, target.width, target.height);
    const Resampling how(i % 3 ? Interpolation::kBicubic : Interpolation::kBilinear);
    const ImageRegion need =
        source_region(source.width, source.height, target, how.filter, workspace);
    const Image part = cut(source, need);
    Image out;
    resize_window(view(part), need, source.width, source.height, target, how, workspace, out);
    const Image whole = cut(resize(source, target.width, target.height, how), target.window);
    ASSERT_EQ(out.width, whole.width);
    ASSERT_EQ(out.pixels, whole.pixels) << "case " << i;
  }
}

TEST(Resample, CropViewIgnoresPixelsOutsideCrop) {
  const Image image = procedural_image(3, 40, 30);
  const ImageRegion at{5, 7, 28, 26};
  ResampleWorkspace workspace;
  Image out;
  resize(crop_view(view(image), at.x0, at.y0, 23, 19), 11, 12, Interpolation::kBicubic, workspace,
         out);
  EXPECT_EQ(out.pixels, resize(cut(image, at), 11, 12, Interpolation::kBicubic).pixels);
}

TEST(Resample, RejectsInvalidGeometry) {
  const Image image = procedural_image(3, 10, 10);
  const auto filter = Interpolation::kBilinear;
  EXPECT_THROW(resize(image, 0, 5, filter), Error);
  EXPECT_THROW(resize(Image{}, 5, 5, filter), Error);
  EXPECT_THROW(resize_box(image, 0, 0, 10.5, 10, 5, 5, filter), Error);
  EXPECT_THROW(resize_box(image, 4, 0, 4, 10, 5, 5, filter), Error);
  EXPECT_THROW(crop_view(view(image), 8, 0, 3, 3), Error);
  ResampleWorkspace workspace;
  Image out;
  EXPECT_THROW(resize_window(view(image), {0, 0, 10, 10}, 20, 10, {5, 5, {0, 0, 5, 5}}, filter,
                             workspace, out),
               Error);
}

}  // namespace
}  // namespace dtn
