// The pixel operations one after another, as DINO's pipeline applies them. One by one they are
// tested in image_ops_test.cpp.
#include <gtest/gtest.h>

#include "data/sample/image_ops.h"
#include "data/sample/instruction_set.h"
#include "data/sample/resample.h"
#include "golden/data/fixtures.h"

namespace dtn {
namespace {

// A line of the files that make_view_fixtures.py writes.
struct ViewCase {
  std::uint32_t seed, crc;
  int width, height, channels, left, top, crop_width, crop_height, size;
  bool flip, gray, solarize;
  std::string order;  // of brightness 0, contrast 1, saturation 2 and hue 3; "-": none
  double brightness, contrast, saturation, hue, sigma;
};

std::istream& operator>>(std::istream& in, ViewCase& c) {
  return in >> c.seed >> c.width >> c.height >> c.channels >> c.left >> c.top >> c.crop_width >>
         c.crop_height >> c.size >> c.flip >> c.order >> c.brightness >> c.contrast >>
         c.saturation >> c.hue >> c.gray >> c.sigma >> c.solarize >> c.crc;
}

void jitter(const ViewCase& c, Image& image) {
  if (c.order == "-") return;
  for (const char step : c.order) {
    if (step == '0') adjust_brightness(image, c.brightness);
    if (step == '1') adjust_contrast(image, c.contrast);
    if (step == '2') adjust_color(image, c.saturation);
    if (step == '3') adjust_hue(image, c.hue);
  }
}

Image view_of(const ViewCase& c, Resample order) {
  const Image whole = golden::procedural_image(c.seed, c.width, c.height, c.channels);
  ResampleWorkspace resampling;
  ImageOpsWorkspace workspace;
  Image image;
  resize(crop_view(view(whole), c.left, c.top, c.crop_width, c.crop_height), c.size, c.size,
         {Interpolation::kBicubic, order}, resampling, image);
  if (c.flip) flip_horizontally(image, workspace);
  jitter(c, image);
  if (c.gray) to_grayscale(image);
  if (c.sigma > 0) gaussian_blur(image, c.sigma, workspace);
  if (c.solarize) solarize(image, 128);
  return image;
}

void expect_equal_pixels(Resample order, const std::string& file) {
  auto table = golden::open_table(file);
  int cases = 0;
  for (ViewCase c; table >> c; ++cases) {
    const Image image = view_of(c, order);
    ASSERT_EQ(image.width, c.size);
    ASSERT_EQ(image.channels, c.channels);
    EXPECT_EQ(golden::crc(image), c.crc)
        << file << " line " << cases + 1 << ", instruction set " << instruction_set();
  }
  EXPECT_EQ(cases, 256);
}

TEST(ViewPixels, EqualPillowBitForBitOnEveryInstructionSet) {
  for (const int level : {0, 1, 2}) {
    limit_instruction_set(level);
    expect_equal_pixels(Resample::kPillow12, "views_pillow12.txt");
    expect_equal_pixels(Resample::kPillow13, "views_pillow13.txt");
  }
  limit_instruction_set(2);
}

}  // namespace
}  // namespace dtn
