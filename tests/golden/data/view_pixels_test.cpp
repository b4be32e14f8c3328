// Views with given choices. The pixel operations are tested one by one in image_ops_test.cpp.
#include <gtest/gtest.h>

#include "data/sample/instruction_set.h"
#include "data/sample/normalization.h"
#include "data/sample/views.h"
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

std::vector<float> table_of(int channels) {
  return normalization_table(resolve_normalization({}, channels));
}

ViewDraw draw_of(const ViewCase& c) {
  ViewDraw draw;
  draw.crop = {c.left, c.top, c.left + c.crop_width, c.top + c.crop_height};
  draw.flip = c.flip;
  draw.gray = c.gray;
  draw.sigma = c.sigma;
  draw.solarize = c.solarize;
  if (c.order == "-") return draw;
  draw.factors = {c.brightness, c.contrast, c.saturation};
  draw.hue = c.hue;
  for (std::size_t i = 0; i < 4; ++i) draw.order[i] = static_cast<ColorProperty>(c.order[i] - '0');
  return draw;
}

Image view_of(const ViewCase& c, Resample order) {
  const Image whole = golden::procedural_image(c.seed, c.width, c.height, c.channels);
  ResampleWorkspace resampling;
  ImageOpsWorkspace workspace;
  Image image;
  apply(draw_of(c), whole, c.size, {Interpolation::kBicubic, order}, resampling, workspace, image);
  return image;
}

// The loader changes the colours of the crop first, and mirrors it when it normalizes it.
std::vector<float> loaded_view_of(const ViewCase& c, Resample order) {
  const Image whole = golden::procedural_image(c.seed, c.width, c.height, c.channels);
  const ViewDraw draw = draw_of(c);
  ResampleWorkspace resampling;
  ImageOpsWorkspace workspace;
  Image image;
  resize_crop({&whole, {0, 0, c.width, c.height}}, draw.crop, c.size, c.size,
              {Interpolation::kBicubic, order}, resampling, image);
  apply_colors(draw, image, workspace);
  std::vector<float> values(image.pixels.size());
  normalize_image(image, table_of(c.channels), draw.flip, values.data());
  return values;
}

void expect_equal_pixels(Resample order, const std::string& file) {
  auto table = golden::open_table(file);
  int cases = 0;
  for (ViewCase c; table >> c; ++cases) {
    const Image image = view_of(c, order);
    ASSERT_EQ(image.width, c.size);
    ASSERT_EQ(image.channels, c.channels);
    std::vector<float> values(image.pixels.size());
    normalize_image(image, table_of(c.channels), false, values.data());
    EXPECT_EQ(loaded_view_of(c, order), values) << file << " line " << cases + 1;
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
