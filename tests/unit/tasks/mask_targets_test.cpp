#include "tasks/detect/mask_targets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dtn/core/check.h"
#include "unit/boxes/random_boxes.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kCells = 7;
using Target = std::vector<std::uint8_t>;

struct Size {
  std::int64_t height, width;
};

MaskFrame frame_of(const Size& original, const Size& size, const Size& padded,
                   bool mirrored = false) {
  return {{size.height, size.width, original.height, original.width},
          padded.height,
          padded.width,
          mirrored};
}

Target target_of(const TruthMask& truth, const Box& region) {
  Target target(kCells * kCells, 7);
  truth.write_target(region, target, kCells);
  return target;
}

// Spots of random places and sizes.
std::vector<std::uint8_t> spots(const Size& size, std::uint32_t stream) {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(size.height * size.width), 0);
  for (const Box& b : random_boxes(9, stream, static_cast<float>(size.width) - 9, 25)) {
    for (std::int64_t y = 0; y < size.height; ++y) {
      for (std::int64_t x = 0; x < size.width; ++x) {
        const float fx = static_cast<float>(x), fy = static_cast<float>(y);
        if (b.x1 <= fx && fx < b.x2 && b.y1 <= fy && fy < b.y2) {
          mask[static_cast<std::size_t>(y * size.width + x)] ^= 1;
        }
      }
    }
  }
  return mask;
}

// The padded image of a mask, pixel by pixel.
std::vector<double> plain_canvas(const std::vector<std::uint8_t>& mask, const MaskFrame& frame) {
  const ResizedImage& image = frame.image;
  std::vector<double> canvas(static_cast<std::size_t>(frame.padded_height * frame.padded_width), 0);
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      const std::int64_t from_y = y * image.original_height / image.height;
      const std::int64_t from_x = x * image.original_width / image.width;
      const std::int64_t to_x = frame.mirrored ? image.width - 1 - x : x;
      canvas[static_cast<std::size_t>(y * frame.padded_width + to_x)] =
          mask[static_cast<std::size_t>(from_y * image.original_width + from_x)];
    }
  }
  return canvas;
}

double bilinear(const std::vector<double>& canvas, const Size& size, double y, double x) {
  const auto h = static_cast<double>(size.height), w = static_cast<double>(size.width);
  if (y < -1 || y > h || x < -1 || x > w) return 0;
  y = std::clamp(y, 0.0, h - 1), x = std::clamp(x, 0.0, w - 1);
  double sum = 0;
  for (const double i : {std::floor(y), std::floor(y) + 1}) {
    for (const double j : {std::floor(x), std::floor(x) + 1}) {
      const double weight = (1 - std::abs(y - i)) * (1 - std::abs(x - j));
      if (weight > 0) sum += weight * canvas[static_cast<std::size_t>(i * w + j)];
    }
  }
  return sum;
}

// RoIAlign sample by sample, then the threshold.
Target plain_target(const std::vector<double>& canvas, const Size& size, const Box& region) {
  const Box box = clip_box(region, static_cast<float>(size.width), static_cast<float>(size.height));
  const double bin_y = (static_cast<double>(box.y2) - box.y1) / kCells;
  const double bin_x = (static_cast<double>(box.x2) - box.x1) / kCells;
  const double ny = std::ceil(bin_y), nx = std::ceil(bin_x);
  Target target;
  for (int p = 0; p < kCells; ++p) {
    for (int q = 0; q < kCells; ++q) {
      double sum = 0;
      for (int i = 0; i < ny; ++i) {
        for (int j = 0; j < nx; ++j) {
          sum += bilinear(canvas, size, box.y1 - 0.5 + (p + (i + 0.5) / ny) * bin_y,
                          box.x1 - 0.5 + (q + (j + 0.5) / nx) * bin_x);
        }
      }
      target.push_back(ny * nx > 0 && sum / (ny * nx) >= 0.5 - 1e-9);
    }
  }
  return target;
}

TEST(MaskTargets, MatchPlainSampling) {
  const MaskFrame frames[] = {
      frame_of({20, 30}, {33, 50}, {64, 64}), frame_of({20, 30}, {33, 50}, {64, 64}, true),
      frame_of({40, 30}, {20, 15}, {32, 32}, true), frame_of({32, 32}, {32, 32}, {32, 32}),
      frame_of({21, 34}, {64, 32}, {64, 32}, true)};
  std::uint32_t stream = 0;
  for (const MaskFrame& frame : frames) {
    const ResizedImage& image = frame.image;
    const Size original{image.original_height, image.original_width};
    const std::vector<std::uint8_t> mask = spots(original, ++stream);
    const TruthMask truth(rle_of_mask(mask.data(), original.height, original.width), frame);
    const std::vector<double> canvas = plain_canvas(mask, frame);
    const Size padded{frame.padded_height, frame.padded_width};
    std::size_t set = 0, unset = 0;
    for (Box region : random_boxes(60, 40 + stream, static_cast<float>(image.width) + 10, 45)) {
      region = {region.x1 - 12, region.y1 - 12, region.x2 - 12, region.y2 - 12};
      const Target got = target_of(truth, region);
      EXPECT_EQ(got, plain_target(canvas, padded, region))
          << stream << ": " << region.x1 << " " << region.y1 << " " << region.x2 << " "
          << region.y2;
      for (const std::uint8_t v : got) ++(v > 0 ? set : unset);
    }
    EXPECT_GT(set, 300u);
    EXPECT_GT(unset, 300u);
  }
}

TEST(MaskTargets, HalfOfACellIsEnough) {
  // The left half of the image is set. Cells of 2 x 2 pixels; column 3 of them lies half in it.
  std::vector<std::uint8_t> mask(32 * 32);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 32 < 16;
  const TruthMask truth(rle_of_mask(mask.data(), 32, 32), frame_of({32, 32}, {32, 32}, {32, 32}));
  const Target target = target_of(truth, {9, 0, 23, 14});
  for (std::size_t i = 0; i < target.size(); ++i) EXPECT_EQ(target[i], i % 7 <= 3 ? 1 : 0) << i;
  // Mirrored, the right half is.
  const TruthMask other(rle_of_mask(mask.data(), 32, 32),
                        frame_of({32, 32}, {32, 32}, {32, 32}, true));
  const Target right = target_of(other, {9, 0, 23, 14});
  for (std::size_t i = 0; i < right.size(); ++i) EXPECT_EQ(right[i], i % 7 >= 3 ? 1 : 0) << i;
}

TEST(MaskTargets, EmptyAndHostileRegions) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<std::uint8_t> mask(32 * 32, 1);
  const MaskFrame frame = frame_of({32, 32}, {32, 32}, {32, 32});
  const TruthMask truth(rle_of_mask(mask.data(), 32, 32), frame);
  const Target zeros(kCells * kCells, 0), ones(kCells * kCells, 1);
  for (const Box& box : {Box{NAN, 0, 9, 9}, Box{0, 0, 9, NAN}, Box{5, 5, 5, 9}, Box{9, 5, 3, 9},
                         Box{40, 3, 50, 9}, Box{kInf, 0, kInf, 9}}) {
    EXPECT_EQ(target_of(truth, box), zeros) << box.x1 << " " << box.x2;
  }
  EXPECT_EQ(target_of(truth, {-kInf, -kInf, kInf, kInf}), ones);
  EXPECT_EQ(target_of(truth, {-1e30f, 3, 1e30f, 9}), ones);
  EXPECT_EQ(target_of(TruthMask(Rle{32, 32, {1024}}, frame), {0, 0, 32, 32}), zeros);
  // Runs of 0 pixels inside a mask.
  EXPECT_EQ(target_of(TruthMask(Rle{32, 32, {0, 100, 0, 924}}, frame), {0, 0, 32, 32}), ones);
}

TEST(MaskTargets, RefusesSizesThatDoNotFit) {
  const MaskFrame frame = frame_of({32, 32}, {32, 32}, {32, 32});
  EXPECT_THROW(TruthMask(Rle{32, 16, {512}}, frame), Error);
  const TruthMask truth(Rle{32, 32, {1024}}, frame);
  Target target(48);
  EXPECT_THROW(truth.write_target({0, 0, 9, 9}, target, kCells), Error);
  EXPECT_THROW(TruthMask(Rle{32, 32, {1024}}, frame_of({32, 32}, {32, 32}, {32, 31})), Error);
}

}  // namespace
}  // namespace dtn::test
