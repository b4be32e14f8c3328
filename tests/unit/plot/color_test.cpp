#include "plot/color.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace dtn::plot {
namespace {

double lightness(Rgb c) { return 0.2126 * c.r + 0.7152 * c.g + 0.0722 * c.b; }

TEST(Colors, MapsHaveExpectedEndpoints) {
  EXPECT_EQ(hex(viridis(0)), "#440154");
  EXPECT_EQ(hex(viridis(1)), "#fde725");
  EXPECT_EQ(hex(viridis(0.5)), "#21908d");
  EXPECT_EQ(hex(viridis(-3)), "#440154");
  EXPECT_EQ(hex(viridis(1e300)), "#fde725");
  EXPECT_EQ(hex(blue_white_red(0.5)), "#ffffff");
  EXPECT_GT(blue_white_red(0).b, blue_white_red(0).r);
  EXPECT_GT(blue_white_red(1).r, blue_white_red(1).b);
}

TEST(Colors, ViridisLightnessIncreases) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_LT(lightness(viridis(i / 100.0)), lightness(viridis((i + 1) / 100.0)));
  }
}

TEST(Colors, SignedMapEndsAreEquallyDark) {
  EXPECT_NEAR(lightness(blue_white_red(0)), lightness(blue_white_red(1)), 12);
}

TEST(Colors, SeriesHaveStableColorsAndUniqueNames) {
  EXPECT_EQ(hex(series_paint(0).light), "#0060a4");
  EXPECT_EQ(hex(series_paint(1).light), "#c48500");
  EXPECT_EQ(hex(series_paint(6).light), "#000000");
  EXPECT_STREQ(series_paint(7).name, series_paint(0).name);
  std::set<std::string> names;
  for (const Paint& p : all_paints()) names.insert(p.name);
  EXPECT_EQ(names.size(), all_paints().size());
}

// WCAG 2 contrast: text needs 4.5; lines and marks need 3.
double contrast(Rgb a, Rgb b) {
  auto luminance = [](Rgb c) {
    auto linear = [](double v) {
      v /= 255;
      return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
  };
  const double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
  return x > y ? x / y : y / x;
}

TEST(Colors, TextIsReadableInLightAndDarkMode) {
  for (const Paint& p : {kInk, kSoft}) {
    EXPECT_GT(contrast(p.light, kPaper.light), 4.5) << p.name;
    EXPECT_GT(contrast(p.dark, kPaper.dark), 4.5) << p.name;
  }
  for (std::size_t i = 0; i < kSeriesPaints; ++i) {
    EXPECT_GT(contrast(series_paint(i).light, kPaper.light), 3) << i;
    EXPECT_GT(contrast(series_paint(i).dark, kPaper.dark), 4.5) << i;
  }
}

}  // namespace
}  // namespace dtn::plot
