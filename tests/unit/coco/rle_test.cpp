// Run lengths of masks: their text, their bitmaps, and hostile texts.
#include "data/coco/rle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "dtn/core/check.h"

namespace dtn {
namespace {

using Runs = std::vector<std::int64_t>;
using Bitmap = std::vector<std::uint8_t>;

std::string message_of_text(std::int64_t height, std::int64_t width, const std::string& text) {
  try {
    rle_of_text(height, width, text);
  } catch (const DataError& e) {
    return e.what();
  }
  return "none";
}

Bitmap random_bitmap(std::mt19937& random, std::int64_t pixels) {
  Bitmap bitmap(static_cast<std::size_t>(pixels));
  const unsigned one_of = 2 + static_cast<unsigned>(random() % 9);
  std::uint8_t value = random() % 2;
  for (std::uint8_t& pixel : bitmap) {
    if (random() % one_of == 0) value ^= 1;
    pixel = value;
  }
  return bitmap;
}

TEST(Rle, CountsColumnByColumn) {
  // 0 1 0
  // 1 1 0
  const Bitmap bitmap = {0, 1, 0, 1, 1, 0};
  const Rle rle = rle_of_mask(bitmap.data(), 2, 3);
  EXPECT_EQ(rle, (Rle{2, 3, {1, 3, 2}}));
  EXPECT_EQ(mask_area(rle), 3);
  EXPECT_EQ(bounds_of(rle), (PixelBox{0, 0, 2, 2}));
  Bitmap again(6, 9);
  write_mask(rle, again.data());
  EXPECT_EQ(again, bitmap);
}

TEST(Rle, BeginsWithRunOfZeros) {
  const Bitmap bitmap = {5, 1};  // any value but 0 is a 1
  EXPECT_EQ(rle_of_mask(bitmap.data(), 1, 2), (Rle{1, 2, {0, 2}}));
}

TEST(Rle, WritesDifferencesFromFourthRunOn) {
  const Rle rle = rle_of_runs(10, 10, Runs{6, 1, 40, 4, 21, 28});
  // 6, 1, 40 = 8 + 32 (1 more group), 4 - 1 = 3, 21 - 40 = -19, 28 - 4 = 24 = 24 + 32 (0 more).
  EXPECT_EQ(rle_text(rle), "61X13]Oh0");
  EXPECT_EQ(rle_of_text(10, 10, "61X13]Oh0"), rle);
}

TEST(Rle, TextKeepsLargeRuns) {
  const Rle rle = rle_of_runs(1 << 16, 1 << 15, Runs{0, (1ll << 31) - 3, 1, 0, 2});
  EXPECT_EQ(rle_of_text(rle.height, rle.width, rle_text(rle)), rle);
  const Rle full = rle_of_runs(1 << 16, 1 << 15, Runs{0, 1ll << 31});
  EXPECT_EQ(mask_area(full), 1ll << 31);
  EXPECT_EQ(rle_of_text(full.height, full.width, rle_text(full)), full);
}

TEST(Rle, HasMasksWithoutPixels) {
  const Rle none = rle_of_text(0, 7, "");
  EXPECT_EQ(none, (Rle{0, 7, {0}}));
  EXPECT_EQ(rle_text(none), "0");
  EXPECT_EQ(bounds_of(none), PixelBox{});
  EXPECT_EQ(rle_of_mask(nullptr, 0, 7), none);
  EXPECT_EQ(bounds_of(rle_of_runs(4, 4, Runs{16})), PixelBox{});
  EXPECT_EQ(bounds_of(rle_of_runs(4, 4, Runs{16, 0})), PixelBox{});
}

TEST(Rle, BoundsTakeWholeColumnsOfLongRuns) {
  EXPECT_EQ(bounds_of(rle_of_runs(5, 4, Runs{7, 2, 11})), (PixelBox{1, 2, 1, 2}));
  EXPECT_EQ(bounds_of(rle_of_runs(5, 4, Runs{9, 2, 9})), (PixelBox{1, 0, 2, 5}));
}

TEST(Rle, RefusesHostileTexts) {
  EXPECT_EQ(message_of_text(2, 2, "4"), "none");
  EXPECT_EQ(message_of_text(2, 2, "t"),
            "character 0 of the mask's text has code 116, not 48 to 111");
  EXPECT_EQ(message_of_text(2, 2, "4\xff"),
            "character 1 of the mask's text has code 255, not 48 to 111");
  EXPECT_EQ(message_of_text(2, 2, "X"), "the text of the mask ends inside a number");
  EXPECT_EQ(message_of_text(2, 2, "PPPPPPPP0"),
            "the number before character 7 of the mask's text is too long");
  EXPECT_EQ(message_of_text(2, 2, "11"),
            "the runs of the mask add up to 2, not to its 2 x 2 pixels");
  EXPECT_EQ(message_of_text(2, 2, "15"),
            "the runs of the mask add up to more than its 2 x 2 pixels");
  EXPECT_EQ(message_of_text(2, 2, "4O"), "run 1 of the mask is -1, below 0");
  EXPECT_EQ(message_of_text(2, 2, ""), "the runs of the mask add up to 0, not to its 2 x 2 pixels");
  EXPECT_EQ(message_of_text(-1, 2, "0").substr(0, 24), "a mask of -1 x 2 pixels;");
  EXPECT_EQ(message_of_text(1 << 16, (1 << 15) + 1, "0").substr(0, 9), "a mask of");
  EXPECT_EQ(message_of_text(1ll << 62, 1ll << 62, "0").substr(0, 9), "a mask of");
}

TEST(Rle, RefusesRunsThatDoNotFit) {
  EXPECT_THROW(rle_of_runs(2, 2, Runs{1, -1, 4}), DataError);
  EXPECT_THROW(rle_of_runs(2, 2, Runs{1, 1ll << 62, 1ll << 62}), DataError);
  EXPECT_THROW(rle_of_runs(2, 2, Runs{3}), DataError);
  EXPECT_EQ(rle_of_runs(2, 2, Runs{1, 0, 3}).runs.size(), 3u) << "runs of 0 stay";
}

TEST(Rle, CombinesMasksAsBitmapsDo) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::int64_t height = 1 + random() % 9, width = 1 + random() % 9;
    const std::size_t count = 1 + random() % 5;
    std::vector<Rle> masks;
    Bitmap any(static_cast<std::size_t>(height * width)), first_two = any;
    for (std::size_t i = 0; i < count; ++i) {
      const Bitmap bitmap = random_bitmap(random, height * width);
      masks.push_back(rle_of_mask(bitmap.data(), height, width));
      for (std::size_t p = 0; p < any.size(); ++p) {
        any[p] |= bitmap[p];
        if (i < 2) first_two[p] = static_cast<std::uint8_t>(first_two[p] + bitmap[p]);
      }
    }
    EXPECT_EQ(union_of(masks), rle_of_mask(any.data(), height, width));
    if (count == 1) continue;
    EXPECT_EQ(intersection_area(masks[0], masks[1]), std::ranges::count(first_two, 2));
  }
}

TEST(Rle, UnionJoinsRuns) {
  const std::vector<Rle> masks = {rle_of_runs(2, 3, Runs{1, 1, 0, 2, 2}),
                                  rle_of_runs(2, 3, Runs{4, 1, 1})};
  EXPECT_EQ(union_of(masks), (Rle{2, 3, {1, 4, 1}}));
  EXPECT_EQ(union_of(std::span(masks).first(1)), (Rle{2, 3, {1, 3, 2}}));
  EXPECT_THROW(union_of({}), Error);
  EXPECT_THROW(intersection_area(masks[0], rle_of_runs(3, 2, Runs{6})), Error);
}

}  // namespace
}  // namespace dtn
