#include "tasks/detect/paste_mask.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "dtn/core/check.h"
#include "dtn/core/philox.h"
#include "unit/boxes/random_boxes.h"

namespace dtn::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::int64_t kHeight = 23, kWidth = 31;
const Rle kNothing{kHeight, kWidth, {kHeight * kWidth}};

std::vector<float> random_logits(std::size_t cells, std::uint32_t stream) {
  std::vector<float> logits;
  for (std::size_t i = 0; i < cells * cells; ++i) {
    logits.push_back((philox_uniform({3, stream, 0}, i) - 0.4f) * 12);
  }
  return logits;
}

// The probability at every pixel of the image, from all cells.
Rle plain_paste(const std::vector<float>& logits, const Box& box) {
  const auto n = static_cast<std::int64_t>(std::sqrt(logits.size()));
  const auto weight = [&](double at, std::int64_t cell) {
    return std::max(0.0, 1 - std::abs(at - static_cast<double>(cell)));
  };
  std::vector<std::uint8_t> mask;
  for (std::int64_t y = 0; y < kHeight; ++y) {
    for (std::int64_t x = 0; x < kWidth; ++x) {
      const double cells = static_cast<double>(n);
      const double v = (static_cast<double>(y) + 0.5 - box.y1) / (box.y2 - box.y1) * cells - 0.5;
      const double u = (static_cast<double>(x) + 0.5 - box.x1) / (box.x2 - box.x1) * cells - 0.5;
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        if (weight(v, i) == 0) continue;
        for (std::int64_t j = 0; j < n; ++j) {
          const double z = logits[static_cast<std::size_t>(i * n + j)];
          sum += weight(v, i) * weight(u, j) / (1 + std::exp(-z));
        }
      }
      mask.push_back(sum >= 0.5);
    }
  }
  return rle_of_mask(mask.data(), kHeight, kWidth);
}

TEST(PasteMask, MatchesPlainSums) {
  std::int64_t set = 0;
  for (const std::size_t cells : {1u, 2u, 5u, 28u}) {
    for (std::uint32_t i = 0; i < 40; ++i) {
      const std::vector<float> logits = random_logits(cells, i);
      Box box = random_boxes(1, 200 + i, 30, 35)[0];
      // Odd shifts, so that no pixel lies at a side of a cell.
      box = {box.x1 - 9.37f, box.y1 - 9.21f, box.x2 - 5.11f, box.y2 - 7.43f};
      const Rle got = paste_mask(logits, box, kHeight, kWidth);
      EXPECT_EQ(got, plain_paste(logits, box)) << cells << " cells, box " << i;
      set += mask_area(got);
    }
  }
  EXPECT_GT(set, 1000);
}

// Probabilities are interpolated, not logits.
TEST(PasteMask, InterpolatesProbabilities) {
  // At the middle of the cells: (1 + 0.27) / 2 is above 1/2; also the logits, 49.5. (0 + 0.73) / 2
  // is below; so is -49.5. But of 100 and -101, 1 / 2 is enough.
  const Box box{10, 5, 13, 6};  // 3 pixels for 2 cells: the second one lies in the middle
  const auto middle = [&](float a, float b) {
    const Rle mask = paste_mask(std::vector<float>{a, b, a, b}, box, kHeight, kWidth);
    std::vector<std::uint8_t> pixels(kHeight * kWidth);
    write_mask(mask, pixels.data());
    return pixels[5 * kWidth + 11] == 1;
  };
  EXPECT_TRUE(middle(100, -1));
  EXPECT_FALSE(middle(-100, 1));
  EXPECT_TRUE(middle(100, -101)) << "1/2 is enough";
  EXPECT_FALSE(middle(3, -5)) << "0.953 / 2 + 0.007 / 2";
  EXPECT_TRUE(middle(-2, 6)) << "0.119 / 2 + 0.998 / 2";
}

TEST(PasteMask, ACellForEachPixel) {
  // Columns 4 and 5 of rows 3 to 6; the second column is off.
  const std::vector<float> logits = {9, -9, 9, -9, 9, 9, -9, -9, 9, 9, 9, 9, 9, 9, -9, 9};
  const Rle mask = paste_mask(logits, {4, 3, 8, 7}, 10, 12);
  std::vector<std::uint8_t> pixels(120);
  write_mask(mask, pixels.data());
  for (std::size_t y = 0; y < 10; ++y) {
    for (std::size_t x = 0; x < 12; ++x) {
      const bool inside = 3 <= y && y < 7 && 4 <= x && x < 8;
      EXPECT_EQ(pixels[y * 12 + x], inside && logits[(y - 3) * 4 + x - 4] > 0) << y << " " << x;
    }
  }
}

TEST(PasteMask, HostileValues) {
  const std::vector<float> on(4, 5.0f);
  for (const Box& box : {Box{NAN, 0, 9, 9}, Box{0, 0, 9, NAN}, Box{0, 0, kInf, 9},
                         Box{-kInf, 0, 9, 9}, Box{5, 5, 5, 9}, Box{9, 5, 3, 9}, Box{40, 3, 50, 9},
                         Box{-9, 3, -2, 9}, Box{1e30f, 0, 2e30f, 9}}) {
    EXPECT_EQ(paste_mask(on, box, kHeight, kWidth), kNothing) << box.x1 << " " << box.x2;
  }
  EXPECT_EQ(paste_mask(on, {-3e38f, -3e38f, 3e38f, 3e38f}, kHeight, kWidth),
            (Rle{kHeight, kWidth, {0, kHeight * kWidth}}));
  EXPECT_EQ(mask_area(paste_mask(on, {4.4f, 4.4f, 4.4000006f, 9}, kHeight, kWidth)), 0)
      << "between the centres of two pixels";
  const std::vector<float> none(4, NAN);
  EXPECT_EQ(paste_mask(none, {0, 0, 9, 9}, kHeight, kWidth), kNothing);
  const std::vector<float> limits = {kInf, -kInf, kInf, -kInf};
  // 4 columns of 8 pixels, less the corners: 5/8 of 5/8 of a cell.
  EXPECT_EQ(mask_area(paste_mask(limits, {0, 0, 8, 8}, kHeight, kWidth)), 28);
  EXPECT_EQ(paste_mask(on, {0, 0, 9, 9}, 0, 0), (Rle{0, 0, {0}}));
  EXPECT_THROW(paste_mask(std::vector<float>(3), {0, 0, 9, 9}, kHeight, kWidth), Error);
  EXPECT_THROW(paste_mask({}, {0, 0, 9, 9}, kHeight, kWidth), Error);
  EXPECT_THROW(paste_mask(on, {0, 0, 9, 9}, -1, kWidth), DataError);
}

}  // namespace
}  // namespace dtn::test
