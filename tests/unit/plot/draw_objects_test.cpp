#include "plot/draw_objects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "dtn/core/check.h"

namespace dtn::plot {
namespace {

constexpr Rgb kGround{100, 110, 120};

Image ground(int width, int height) {
  Image image;
  image.reshape(width, height, 3);
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    image.pixels[i] = kGround.r, image.pixels[i + 1] = kGround.g, image.pixels[i + 2] = kGround.b;
  }
  return image;
}

Rgb at(const Image& image, int x, int y) {
  const std::uint8_t* p = image.pixels.data() + (static_cast<std::size_t>(y) * image.width + x) * 3;
  return {p[0], p[1], p[2]};
}

int count_of(const Image& image, Rgb color) {
  int count = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) count += at(image, x, y) == color;
  }
  return count;
}

DrawnObject box(float x1, float y1, float x2, float y2, std::int64_t label = 0) {
  return {.x1 = x1, .y1 = y1, .x2 = x2, .y2 = y2, .label = label};
}

// The runs of a rectangle of pixels [x1, x2) x [y1, y2) in a mask.
std::vector<std::uint32_t> runs_of(int width, int height, int x1, int y1, int x2, int y2) {
  std::vector<std::uint32_t> runs{0};
  bool current = false;
  for (int x = 0; x < width; ++x) {
    for (int y = 0; y < height; ++y) {
      const bool set = x >= x1 && x < x2 && y >= y1 && y < y2;
      if (set != current) runs.push_back(0), current = set;
      ++runs.back();
    }
  }
  return runs;
}

double linear(std::uint8_t value) {
  const double v = value / 255.0;
  return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
}

// OKLab of a colour as people see it whose receptors `matrix` describes, on linear RGB.
using Matrix = std::array<double, 9>;
std::array<double, 3> product(const Matrix& m, const std::array<double, 3>& v) {
  return {m[0] * v[0] + m[1] * v[1] + m[2] * v[2], m[3] * v[0] + m[4] * v[1] + m[5] * v[2],
          m[6] * v[0] + m[7] * v[1] + m[8] * v[2]};
}
std::array<double, 3> seen(Rgb color, const Matrix& matrix) {
  std::array<double, 3> rgb = product(matrix, {linear(color.r), linear(color.g), linear(color.b)});
  for (double& v : rgb) v = std::clamp(v, 0.0, 1.0);
  std::array<double, 3> lms =
      product({0.4122214708, 0.5363325363, 0.0514459929, 0.2119034982, 0.6806995451, 0.1073969566,
               0.0883024619, 0.2817188376, 0.6299787005},
              rgb);
  for (double& v : lms) v = std::cbrt(v);
  return product({0.2104542553, 0.7936177850, -0.0040720468, 1.9779984951, -2.4285922050,
                  0.4505937099, 0.0259040371, 0.7827717662, -0.8086757660},
                 lms);
}
// Smallest distance of two of the first n colours.
double least_distance(std::int64_t n, const Matrix& matrix) {
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      const auto a = seen(object_color(i), matrix), b = seen(object_color(j), matrix);
      least = std::min(least, std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]));
    }
  }
  return least;
}

// Colours about 0.02 apart are just told apart when they lie side by side.
TEST(ObjectColors, DifferForEverybody) {
  const Matrix all{1, 0, 0, 0, 1, 0, 0, 0, 1};
  const Matrix without_red{0.152286, 1.052583,  -0.204868, 0.114503, 0.786281,
                           0.099216, -0.003882, -0.048116, 1.051998};
  const Matrix without_green{0.367322, 0.860646,  -0.227968, 0.280085, 0.672501,
                             0.047413, -0.011820, 0.042940,  0.968881};
  for (const Matrix& matrix : {all, without_red, without_green}) {
    EXPECT_GT(least_distance(kObjectColors, matrix), 0.028);
    EXPECT_GT(least_distance(20, matrix), 0.07);
  }
}

// WCAG 2 asks for a contrast of 4.5 of small texts.
TEST(ObjectColors, TextsHaveContrast) {
  const auto luminance = [](Rgb color) {
    return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b);
  };
  for (std::int64_t i = 0; i < kObjectColors; ++i) {
    const double a = luminance(object_color(i)), b = luminance(ink_on(object_color(i)));
    EXPECT_GE((std::max(a, b) + 0.05) / (std::min(a, b) + 0.05), 4.5) << hex(object_color(i));
  }
}

TEST(ObjectColors, RepeatForAnyLabel) {
  EXPECT_EQ(object_color(kObjectColors), object_color(0));
  EXPECT_EQ(object_color(-1), object_color(kObjectColors - 1));
  EXPECT_EQ(ink_on({255, 255, 0}), (Rgb{0, 0, 0}));
}

TEST(DrawnObjects, SmallPictureIsEnlarged) {
  Image grey;
  grey.reshape(3, 2, 1);
  grey.pixels = {1, 2, 3, 4, 5, 6};
  const Image drawn = draw_objects(grey, {});
  ASSERT_EQ(drawing_factor(3, 2), 160);
  ASSERT_EQ(std::pair(drawn.width, drawn.height), std::pair(480, 320));
  EXPECT_EQ(at(drawn, 0, 0), (Rgb{1, 1, 1}));
  EXPECT_EQ(at(drawn, 479, 159), (Rgb{3, 3, 3}));
  EXPECT_EQ(at(drawn, 160, 160), (Rgb{5, 5, 5}));
  EXPECT_EQ(drawing_factor(128, 96), 4);
  EXPECT_EQ(drawing_factor(480, 10), 1);
  const Image large = ground(500, 300);
  EXPECT_EQ(draw_objects(large, {}).pixels, large.pixels);
}

TEST(DrawnObjects, FrameLiesOnBox) {
  const Image drawn = draw_objects(ground(600, 400), std::vector{box(100, 80, 300, 240)});
  const Rgb color = object_color(0), outline = ink_on(color);
  EXPECT_EQ(at(drawn, 99, 160), color);
  EXPECT_EQ(at(drawn, 100, 160), color);
  EXPECT_EQ(at(drawn, 98, 160), outline);
  EXPECT_EQ(at(drawn, 101, 160), outline);
  EXPECT_EQ(at(drawn, 97, 160), kGround);
  EXPECT_EQ(at(drawn, 200, 160), kGround) << "the inside is free";
  EXPECT_EQ(at(drawn, 200, 80), color);
  EXPECT_EQ(at(drawn, 300, 160), color);
  EXPECT_EQ(at(drawn, 200, 239), color);
  EXPECT_EQ(count_of(drawn, color), 2 * (202 + 202) + 2 * 2 * 158);
}

TEST(DrawnObjects, DashedFrameHasGaps) {
  DrawnObject crowd = box(100, 80, 300, 240);
  crowd.dashed = true;
  const Image drawn = draw_objects(ground(600, 400), std::vector{crowd});
  const int full = 2 * (202 + 202) + 2 * 2 * 158;
  const int colored = count_of(drawn, object_color(0));
  EXPECT_GT(colored, full / 3);
  EXPECT_LT(colored, full * 2 / 3);
}

TEST(DrawnObjects, LinesGrowWithPicture) {
  const auto line_at = [](int side) {
    const Image drawn = draw_objects(
        ground(side, side), std::vector{box(0.25F * static_cast<float>(side), 0,
                                            static_cast<float>(side), static_cast<float>(side))});
    int width = 0;
    for (int x = 0; x < side / 2; ++x) width += at(drawn, x, side / 2) == object_color(0);
    return width;
  };
  EXPECT_EQ(line_at(500), 2);
  EXPECT_EQ(line_at(1600), 5);
  EXPECT_EQ(line_at(3200), 10);
}

// All four lines of a box that fills the picture are visible, and a tab is readable at any border.
TEST(DrawnObjects, StayInsidePicture) {
  const Image drawn = draw_objects(ground(600, 400), std::vector{box(-1e6F, 0, 1e9F, 400)});
  const Rgb color = object_color(0);
  EXPECT_EQ(at(drawn, 2, 200), color);
  EXPECT_EQ(at(drawn, 597, 200), color);
  EXPECT_EQ(at(drawn, 300, 2), color);
  EXPECT_EQ(at(drawn, 300, 397), color);
  const auto ink_of = [](float x, float y) {
    DrawnObject object = box(x, y, x + 60, y + 40, 1);
    object.text = "zebra", object.number = "0.98";
    const Image picture = draw_objects(ground(600, 400), std::vector{object});
    DrawnObject frame = object;
    frame.text = frame.number = "";
    const Image without = draw_objects(ground(600, 400), std::vector{frame});
    // Tab and frame have the same colours, so the tab is compared by its area.
    return std::pair(count_of(picture, object_color(1)) - count_of(without, object_color(1)),
                     count_of(picture, kGround) - count_of(without, kGround));
  };
  const auto middle = ink_of(300, 200);
  // The text "zebra 0.98" in size 2 and the margin: 122 x 22 pixels; the letters take some.
  EXPECT_EQ(middle.second, -122 * 22);
  EXPECT_GT(middle.first, 122 * 22 / 2);
  EXPECT_EQ(ink_of(300, 350), middle) << "above a box at the lower border";
  for (const auto& [x, y] : {std::pair(0, 0), std::pair(300, 0), std::pair(540, 0)}) {
    // Part of the tab lies on the frame.
    EXPECT_LT(ink_of(static_cast<float>(x), static_cast<float>(y)).second, -80 * 22)
        << x << " " << y;
  }
}

TEST(DrawnObjects, BetterScoresLieOnTop) {
  std::vector<DrawnObject> objects{box(100, 100, 300, 300, 0), box(100, 100, 300, 300, 1)};
  objects[0].score = 0.9F, objects[1].score = 0.4F;
  EXPECT_EQ(at(draw_objects(ground(600, 400), objects), 100, 200), object_color(0));
  std::swap(objects[0].score, objects[1].score);
  EXPECT_EQ(at(draw_objects(ground(600, 400), objects), 100, 200), object_color(1));
  objects[1].score = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(at(draw_objects(ground(600, 400), objects), 100, 200), object_color(0));
}

TEST(DrawnObjects, TabsAvoidEachOther) {
  std::vector<DrawnObject> objects;
  for (int i = 0; i < 3; ++i) {
    objects.push_back(box(200, 150, 400, 300, i));
    objects.back().number = "0.5";
    objects.back().score = 0.5F;
  }
  const Image drawn = draw_objects(ground(600, 400), objects);
  for (int i = 0; i < 3; ++i) {
    // 38 x 22 pixels of a tab without about 60 of letters of 2 x 2 pixels.
    EXPECT_GT(count_of(drawn, object_color(i)), 400) << i;
  }
}

TEST(DrawnObjects, LongNameKeepsNumber) {
  DrawnObject object = box(0, 100, 600, 300);
  object.text = std::string(200, 'm'), object.number = "0.98";
  const Image drawn = draw_objects(ground(600, 400), std::vector{object});
  object.text = "m";
  const Image brief = draw_objects(ground(600, 400), std::vector{object});
  const Rgb ink = ink_on(object_color(0));
  int last = 0, last_brief = 0;
  for (int y = 76; y < 97; ++y) {
    for (int x = 0; x < 600; ++x) {
      if (at(drawn, x, y) == ink) last = std::max(last, x);
      if (at(brief, x, y) == ink) last_brief = std::max(last_brief, x);
    }
  }
  EXPECT_GT(last, 570);
  EXPECT_LT(last, 600);
  // The last four characters are the same.
  for (int y = 76; y < 97; ++y) {
    for (int x = 0; x < 46; ++x) {
      ASSERT_EQ(at(drawn, last - x, y) == ink, at(brief, last_brief - x, y) == ink)
          << x << " " << y;
    }
  }
}

TEST(DrawnObjects, MaskIsTintedAndHasEdge) {
  const std::vector<std::uint32_t> runs = runs_of(500, 300, 100, 50, 200, 150);
  DrawnObject object = box(-20, -20, -10, -10, 1);  // no frame
  object.mask = {.height = 300, .width = 500, .runs = runs};
  const Image drawn = draw_objects(ground(500, 300), std::vector{object});
  const Rgb color = object_color(1);
  EXPECT_EQ(count_of(drawn, kGround), 500 * 300 - 100 * 100);
  EXPECT_EQ(count_of(drawn, color), 100 * 100 - 96 * 96);
  EXPECT_EQ(at(drawn, 100, 60), color);
  EXPECT_EQ(at(drawn, 199, 149), color);
  const Rgb inner = at(drawn, 150, 100);
  EXPECT_NEAR(inner.r, 0.6 * kGround.r + 0.4 * color.r, 1);
  EXPECT_NEAR(inner.g, 0.6 * kGround.g + 0.4 * color.g, 1);
  EXPECT_NEAR(inner.b, 0.6 * kGround.b + 0.4 * color.b, 1);
}

// A mask keeps its size when the picture is smaller or enlarged.
TEST(DrawnObjects, MaskHasSizeOfItsOwn) {
  const std::vector<std::uint32_t> runs = runs_of(10, 6, 2, 1, 4, 3);
  DrawnObject object = box(-20, -20, -10, -10, 1);
  object.mask = {.height = 6, .width = 10, .runs = runs};
  const auto expect_area = [&](int width, int height) {
    const Image drawn = draw_objects(ground(width, height), std::vector{object});
    const int w = drawn.width, h = drawn.height;
    EXPECT_EQ(count_of(drawn, kGround), w * h - (w / 5) * (h / 3)) << width;
    EXPECT_EQ(at(drawn, w / 5 - 1, h / 3), kGround);
    EXPECT_NE(at(drawn, w / 5, h / 3), kGround);
    EXPECT_NE(at(drawn, 2 * w / 5 - 1, h / 2 - 1), kGround);
    EXPECT_EQ(at(drawn, 2 * w / 5, h / 2 - 1), kGround);
  };
  expect_area(1000, 600);
  expect_area(100, 60);
  expect_area(10, 6);
}

TEST(DrawnObjects, AnyRunsAreDrawn) {
  const std::vector<std::uint32_t> all{0, 6}, none{6}, zero_inside{1, 2, 0, 3}, wrong{3, 2};
  DrawnObject object = box(-20, -20, -10, -10, 1);
  const auto free_pixels = [&](std::span<const std::uint32_t> runs) {
    object.mask = {.height = 2, .width = 3, .runs = runs};
    return count_of(draw_objects(ground(600, 400), std::vector{object}), kGround);
  };
  EXPECT_EQ(free_pixels(all), 0);
  EXPECT_EQ(free_pixels(none), 600 * 400);
  EXPECT_EQ(free_pixels(zero_inside), 200 * 200);
  EXPECT_THROW(free_pixels(wrong), Error);
}

TEST(DrawnObjects, ImpossibleBoxesAreLeftOut) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  std::vector<DrawnObject> objects{box(kNan, 1, 2, 3),      box(0, 0, kInfinite, 10),
                                   box(601, 0, 700, 100),   box(0, -9, 100, -1),
                                   box(300, 300, 100, 100), box(0, 500, 10, 600)};
  for (DrawnObject& object : objects) object.text = "ghost";
  const Image empty = ground(600, 400);
  EXPECT_EQ(draw_objects(empty, objects).pixels, empty.pixels);
  EXPECT_NE(draw_objects(empty, std::vector{box(5, 5, 5, 5)}).pixels, empty.pixels)
      << "a box without a size is a spot";
}

TEST(DrawnObjects, AreEqualEachTime) {
  std::vector<DrawnObject> objects;
  const std::vector<std::uint32_t> runs = runs_of(128, 96, 10, 20, 90, 70);
  for (int i = 0; i < 40; ++i) {
    objects.push_back(box(static_cast<float>(i), static_cast<float>(2 * i),
                          static_cast<float>(50 + 2 * i), static_cast<float>(60 + i), i));
    objects.back().text = "name", objects.back().number = "0.5";
    if (i % 3 == 0) objects.back().mask = {.height = 96, .width = 128, .runs = runs};
  }
  const Image first = draw_objects(ground(128, 96), objects);
  EXPECT_EQ(first.pixels, draw_objects(ground(128, 96), objects).pixels);
}

TEST(DrawnObjects, TinyAndNarrowPicturesHaveNoTrouble) {
  for (const auto& [width, height] :
       {std::pair(1, 1), std::pair(2000, 1), std::pair(1, 2000), std::pair(2000, 5)}) {
    DrawnObject object = box(0, 0, static_cast<float>(width), static_cast<float>(height));
    object.text = "name", object.number = "0.5";
    const std::vector<std::uint32_t> runs{0, 4};
    object.mask = {.height = 2, .width = 2, .runs = runs};
    const Image drawn = draw_objects(ground(width, height), std::vector{object});
    EXPECT_EQ(drawn.pixels.size(),
              static_cast<std::size_t>(drawn.width) * static_cast<std::size_t>(drawn.height) * 3);
    EXPECT_LT(count_of(drawn, kGround), drawn.width * drawn.height);
  }
  EXPECT_THROW(draw_objects(Image{}, {}), Error);
}

}  // namespace
}  // namespace dtn::plot
