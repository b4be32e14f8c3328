#include "data/sample/image_ops.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <set>

#include "data/sample/instruction_set.h"
#include "dtn/core/check.h"
#include "golden/data/fixtures.h"

namespace dtn {
namespace {

using golden::procedural_image;

// The images of make_augment_fixtures.py.
Image fixture_image(char kind, std::uint32_t seed, int width, int height, int channels) {
  Image image = procedural_image(seed, width, height, channels);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    if (kind == 'n') image.pixels[i] = static_cast<std::uint8_t>(image.pixels[i] / 8 + 100);
    if (kind == 'c') image.pixels[i] = image.pixels[i % static_cast<std::size_t>(channels)];
  }
  return image;
}

struct Call {
  Image& image;
  double argument;
  AffineFilter filter;
  ImageOpsWorkspace& workspace;

  void affine(const AffineMatrix& matrix) const {
    transform_affine(image, matrix, filter, {124, 116, 104}, workspace);
  }
};

const std::map<std::string, std::function<void(const Call&)>> kOperations = {
    {"autocontrast", [](const Call& c) { auto_contrast(c.image); }},
    {"equalize", [](const Call& c) { equalize(c.image); }},
    {"invert", [](const Call& c) { invert(c.image); }},
    {"posterize", [](const Call& c) { posterize(c.image, static_cast<int>(c.argument)); }},
    {"solarize", [](const Call& c) { solarize(c.image, static_cast<int>(c.argument)); }},
    {"solarize_add", [](const Call& c) { solarize_add(c.image, static_cast<int>(c.argument)); }},
    {"color", [](const Call& c) { adjust_color(c.image, c.argument); }},
    {"contrast", [](const Call& c) { adjust_contrast(c.image, c.argument); }},
    {"brightness", [](const Call& c) { adjust_brightness(c.image, c.argument); }},
    {"sharpness", [](const Call& c) { adjust_sharpness(c.image, c.argument, c.workspace); }},
    {"grayscale", [](const Call& c) { to_grayscale(c.image); }},
    {"blur", [](const Call& c) { gaussian_blur(c.image, c.argument, c.workspace); }},
    {"hue", [](const Call& c) { adjust_hue(c.image, c.argument); }},
    {"flip", [](const Call& c) { flip_horizontally(c.image, c.workspace); }},
    {"rotate",
     [](const Call& c) {
       rotate(c.image, c.argument, c.filter, {124, 116, 104}, c.workspace);
     }},
    {"shear_x",
     [](const Call& c) {
       c.affine({1, c.argument, 0, 0, 1, 0});
     }},
    {"shear_y",
     [](const Call& c) {
       c.affine({1, 0, 0, c.argument, 1, 0});
     }},
    {"translate_x",
     [](const Call& c) {
       c.affine({1, 0, c.argument * c.image.width, 0, 1, 0});
     }},
    {"translate_y",
     [](const Call& c) {
       c.affine({1, 0, 0, 0, 1, c.argument * c.image.height});
     }},
};

AffineFilter affine_filter_named(const std::string& name) {
  return name == "nearest"    ? AffineFilter::kNearest
         : name == "bilinear" ? AffineFilter::kBilinear
                              : AffineFilter::kBicubic;
}

TEST(ImageOps, EqualPillowBitForBitOnEveryInstructionSet) {
  for (const int level : {0, 1, 2}) {
    limit_instruction_set(level);
    auto table = golden::open_table("augment.txt");
    ImageOpsWorkspace workspace;
    std::string name, filter;
    std::uint32_t seed, expected;
    int width, height, channels, cases = 0;
    char kind;
    double argument;
    while (table >> name >> filter >> seed >> width >> height >> channels >> kind >> argument >>
           expected) {
      Image image = fixture_image(kind, seed, width, height, channels);
      kOperations.at(name)({image, argument, affine_filter_named(filter), workspace});
      ASSERT_EQ(image.width, width);
      ASSERT_EQ(image.height, height);
      EXPECT_EQ(golden::crc(image), expected)
          << name << " " << filter << " " << seed << " " << width << " x " << height << " x "
          << channels << " " << kind << " " << argument << ", instruction set " << level;
      ++cases;
    }
    EXPECT_EQ(cases, 928);
  }
  limit_instruction_set(2);
}

// Large enough for every vectorized loop and its remainder, unlike the fixtures.
TEST(ImageOps, AllInstructionSetsAgreeOnLargeImages) {
  for (const auto& [name, operation] : kOperations) {
    const double argument = name == "posterize"                               ? 3
                            : name.starts_with("solarize")                    ? 77
                            : name == "rotate"                                ? 27.3
                            : name.starts_with("s") || name.starts_with("tr") ? 0.27
                            : name == "hue"                                   ? 0.1
                                                                              : 1.4;
    for (const AffineFilter filter :
         {AffineFilter::kNearest, AffineFilter::kBilinear, AffineFilter::kBicubic}) {
      std::vector<std::uint8_t> first;
      for (const int level : {0, 1, 2}) {
        limit_instruction_set(level);
        Image image = procedural_image(5, 331, 203);
        ImageOpsWorkspace workspace;
        operation({image, argument, filter, workspace});
        if (level == 0) first = image.pixels;
        EXPECT_EQ(image.pixels, first) << name << ", instruction set " << level;
      }
    }
  }
  limit_instruction_set(2);
}

TEST(ImageOps, AllocateNothingAfterWarmup) {
  ImageOpsWorkspace workspace;
  Image image = procedural_image(5, 61, 43);
  const auto all = [&] {
    for (const auto& [name, operation] : kOperations)
      operation({image, name == "hue" ? 0.2 : 1.0, AffineFilter::kBicubic, workspace});
  };
  all();
  const std::set<const void*> warm = {image.pixels.data(), workspace.image.pixels.data()};
  const void* const others[] = {workspace.line.data(), workspace.columns.data(),
                                workspace.source_x.data()};
  all();
  EXPECT_EQ(warm, (std::set<const void*>{image.pixels.data(), workspace.image.pixels.data()}));
  EXPECT_EQ(others[0], workspace.line.data());
  EXPECT_EQ(others[1], workspace.columns.data());
  EXPECT_EQ(others[2], workspace.source_x.data());
}

TEST(ImageOps, FillWithDatasetMean) {
  EXPECT_EQ(fill_color(std::vector<float>{0.485f, 0.456f, 0.406f}), (FillColor{124, 116, 104}));
  EXPECT_EQ(fill_color(std::vector<float>{0.5f}), (FillColor{128, 128, 128}));  // half to even
  EXPECT_EQ(fill_color(std::vector<float>{1.5f}), (FillColor{255, 255, 255}));
  Image image = procedural_image(3, 5, 4);
  ImageOpsWorkspace workspace;
  transform_affine(image, {1, 0, 100, 0, 1, 0}, AffineFilter::kBicubic, {1, 2, 3}, workspace);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) EXPECT_EQ(image.pixels[i], 1 + i % 3);
}

TEST(ImageOps, RejectInvalidArguments) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Image image = procedural_image(3, 5, 4), empty, two = procedural_image(3, 5, 4, 2);
  ImageOpsWorkspace ws;
  const auto filter = AffineFilter::kBicubic;
  EXPECT_THROW(invert(empty), Error);
  EXPECT_THROW(equalize(two), Error);
  EXPECT_THROW(posterize(image, 9), Error);
  EXPECT_THROW(solarize(image, -1), Error);
  EXPECT_THROW(solarize_add(image, 256), Error);
  EXPECT_THROW(adjust_brightness(image, nan), Error);
  EXPECT_THROW(adjust_color(image, 1e7), Error);
  EXPECT_THROW(adjust_hue(image, 0.6), Error);
  EXPECT_THROW(gaussian_blur(image, -1, ws), Error);
  EXPECT_THROW(gaussian_blur(image, nan, ws), Error);
  EXPECT_THROW(rotate(image, nan, filter, {}, ws), Error);
  EXPECT_THROW(transform_affine(image, {nan, 0, 0, 0, 1, 0}, filter, {}, ws), Error);
  EXPECT_EQ(image.pixels, procedural_image(3, 5, 4).pixels);
}

}  // namespace
}  // namespace dtn
