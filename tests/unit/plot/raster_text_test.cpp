#include "plot/raster_text.h"

#include <gtest/gtest.h>

#include <set>

#include "dtn/core/check.h"

namespace dtn::plot {
namespace {

constexpr Rgb kGround{10, 20, 30}, kLetters{250, 240, 230};

Image ground(int width, int height) {
  Image image;
  image.reshape(width, height, 3);
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    image.pixels[i] = kGround.r, image.pixels[i + 1] = kGround.g, image.pixels[i + 2] = kGround.b;
  }
  return image;
}

// Returns the drawn pixels as rows of '#' and '.'. Each pixel must be of the ground or of a letter.
std::string picture_of(const Image& image) {
  std::string text;
  for (int y = 0; y < image.height; ++y, text += '\n') {
    for (int x = 0; x < image.width; ++x) {
      const std::uint8_t* p = image.pixels.data() + (y * image.width + x) * 3;
      const Rgb color{p[0], p[1], p[2]};
      EXPECT_TRUE(color == kGround || color == kLetters) << hex(color);
      text += color == kLetters ? '#' : '.';
    }
  }
  return text;
}

std::string drawn(std::string_view text, int scale = 1) {
  Image image = ground(raster_text_width(text, scale), kGlyphHeight * scale);
  draw_raster_text(image, 0, 0, text, kLetters, scale);
  return picture_of(image);
}

TEST(RasterText, DrawsLettersAboveAndBelowBaseline) {
  EXPECT_EQ(drawn("Hg"),
            "#...#......\n"
            "#...#......\n"
            "#...#..####\n"
            "#####.#...#\n"
            "#...#.#...#\n"
            "#...#.#...#\n"
            "#...#..####\n"
            "..........#\n"
            ".......###.\n");
}

TEST(RasterText, CharactersDiffer) {
  std::set<std::string> pictures;
  for (char c = ' '; c <= '~'; ++c) pictures.insert(drawn(std::string(1, c)));
  pictures.insert(drawn("\n"));  // the box
  EXPECT_EQ(pictures.size(), 96U);
}

TEST(RasterText, OtherCharactersAreOneBoxEach) {
  const std::string box = drawn("\t");
  EXPECT_EQ(drawn("\xC3\xA9"), box) << "two bytes";
  EXPECT_EQ(drawn("\xE2\x82\xAC"), box) << "three bytes";
  EXPECT_EQ(drawn("\xF0\x9F\x90\x95"), box) << "four bytes";
  EXPECT_EQ(drawn("\xC3"), box) << "a character that is cut off";
  EXPECT_EQ(raster_text_width("a\xC3\xA9z", 1), raster_text_width("abz", 1));
  EXPECT_EQ(raster_text_width("\xFF\xFE", 1), raster_text_width("ab", 1)) << "no UTF-8";
}

TEST(RasterText, ScaleEnlargesPixels) {
  const std::string once = drawn("k"), thrice = drawn("k", 3);
  for (int y = 0; y < 3 * kGlyphHeight; ++y) {
    for (int x = 0; x < 15; ++x) {
      ASSERT_EQ(thrice[static_cast<std::size_t>(y * 16 + x)],
                once[static_cast<std::size_t>(y / 3 * 6 + x / 3)]);
    }
  }
}

TEST(RasterText, IsClippedAtBorders) {
  const Image whole = [] {
    Image image = ground(60, 30);
    draw_raster_text(image, 20, 10, "Wg", kLetters, 2);
    return image;
  }();
  for (const auto& [left, top] : {std::pair(25, 12), std::pair(-20, -10), std::pair(0, 20)}) {
    Image image = ground(20, 14);
    draw_raster_text(image, 20 - left, 10 - top, "Wg", kLetters, 2);
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        const int wx = x + left, wy = y + top;
        const bool inside = wx >= 0 && wy >= 0 && wx < whole.width && wy < whole.height;
        const int expected =
            inside ? whole.pixels[static_cast<std::size_t>((wy * 60 + wx) * 3)] : kGround.r;
        ASSERT_EQ(image.pixels[static_cast<std::size_t>((y * 20 + x) * 3)], expected);
      }
    }
  }
}

TEST(RasterText, IsShortenedToWidth) {
  EXPECT_EQ(fitted_raster_text("zebra", 2, raster_text_width("zebra", 2)), "zebra");
  EXPECT_EQ(fitted_raster_text("zebra", 2, raster_text_width("zebra", 2) - 1), "ze..");
  EXPECT_EQ(fitted_raster_text("\xC3\xA9\xC3\xA9\xC3\xA9", 1, 3 * kGlyphAdvance - 2), "\xC3\xA9..");
  EXPECT_EQ(fitted_raster_text("zebra", 1, -100), "z..") << "one character remains";
  for (int width = 17; width < 40; ++width) {
    EXPECT_LE(raster_text_width(fitted_raster_text("traffic", 1, width), 1), width);
  }
}

TEST(RasterText, NeedsColourImage) {
  Image grey;
  grey.reshape(8, 8, 1);
  EXPECT_THROW(draw_raster_text(grey, 0, 0, "a", kLetters, 1), Error);
}

}  // namespace
}  // namespace dtn::plot
