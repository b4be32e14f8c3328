// 100,000 draws of crop and flip against their distributions; p > 0.001.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "chi_square.h"
#include "data/sample/transforms.h"
#include "data_fixtures.h"

namespace dtn {
namespace {

using namespace dtn::test;

constexpr int kDraws = 100'000;

AugmentConfig light() {
  AugmentConfig augment;
  augment.preset = AugmentPreset::kLight;
  return augment;
}

CropBox draw(int width, int height, int i) {
  return sample_crop(width, height, light(), {77, 5, static_cast<std::uint64_t>(i)});
}

void expect_fit(const std::vector<double>& counts, const std::vector<double>& probabilities) {
  const ChiSquare test = chi_square(counts, probabilities);
  EXPECT_LT(test.statistic, test.bound);
}

std::size_t bin(double value, double low, double high, std::size_t bins) {
  const double at = (value - low) / (high - low) * static_cast<double>(bins);
  return static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(bins) - 1));
}

// For a square image, uniform draws of area and log ratio are accepted if both sides fit:
// area <= exp(-|log ratio|). So the accepted pairs are uniform below this curve.
TEST(CropStatistics, AreaAndRatio) {
  constexpr std::size_t kAreas = 12, kRatios = 8;
  constexpr int side = 8000, fine = 200;
  const double low = 0.08, end = std::log(4.0 / 3);
  std::vector<double> probabilities(kAreas * kRatios), counts(kAreas * kRatios);
  for (std::size_t r = 0; r < kRatios; ++r) {
    for (std::size_t a = 0; a < kAreas; ++a) {
      const double from = low + (1 - low) * static_cast<double>(a) / kAreas;
      const double to = low + (1 - low) * static_cast<double>(a + 1) / kAreas;
      for (int i = 0; i < fine; ++i) {
        const double l = end * ((static_cast<double>(r) + (i + 0.5) / fine) / kRatios * 2 - 1);
        probabilities[r * kAreas + a] += std::max(0.0, std::min(to, std::exp(-std::abs(l))) - from);
      }
    }
  }
  for (int i = 0; i < kDraws; ++i) {
    const CropBox box = draw(side, side, i);
    const double area = static_cast<double>(box.width) * box.height / side / side;
    const double log_ratio = std::log(static_cast<double>(box.width) / box.height);
    ++counts[bin(log_ratio, -end, end, kRatios) * kAreas + bin(area, low, 1, kAreas)];
  }
  expect_fit(counts, probabilities);
}

// All positions where the crop fits are equally likely in both directions, and so are both flips.
TEST(CropStatistics, PlaceAndFlip) {
  constexpr std::size_t kPlaces = 10;
  std::vector<double> counts(kPlaces * kPlaces * 2);
  std::mt19937 random(3);
  std::uniform_real_distribution<double> within;  // spreads a position among n over 1/n
  for (int i = 0; i < kDraws; ++i) {
    const CropBox box = draw(400, 300, i);
    const double x = (box.left + within(random)) / (400 - box.width + 1);
    const double y = (box.top + within(random)) / (300 - box.height + 1);
    ++counts[(bin(x, 0, 1, kPlaces) * kPlaces + bin(y, 0, 1, kPlaces)) * 2 + box.flip];
  }
  expect_fit(counts, std::vector<double>(counts.size(), 1));
}

TEST(CropStatistics, FlipsWithGivenProbability) {
  AugmentConfig augment = light();
  for (double chance : {0.0, 0.1, 0.5, 1.0}) {
    augment.hflip = chance;
    double flips = 0;
    for (int i = 0; i < kDraws; ++i) {
      flips += sample_crop(40, 30, augment, {1, 2, static_cast<std::uint64_t>(i)}).flip;
    }
    if (chance == 0 || chance == 1) {
      EXPECT_EQ(flips, chance * kDraws);
    } else {
      expect_fit({flips, kDraws - flips}, {chance, 1 - chance});
    }
  }
}

// The image is so long that most tries fail. Central crops show how often all tries fail.
TEST(CropStatistics, FallsBackWithExpectedFrequency) {
  // The width of a try always fits, and its height fits if ratio >= 8 x area. Areas are uniform in
  // [0.08, 1], and ratios are at most 4/3.
  constexpr int width = 8000, height = 1000, fine = 2000;
  const double end = std::log(4.0 / 3);
  double fits = 0;
  for (int i = 0; i < fine; ++i) {
    const double l = end * ((i + 0.5) / fine * 2 - 1);
    fits += std::max(0.0, std::exp(l) / 8 - 0.08) / 0.92 / fine;
  }
  const double none = std::pow(1 - fits, 10);
  const CropBox middle{(width - 1333) / 2, 0, 1333, height, false};
  double fallbacks = 0;
  for (int i = 0; i < kDraws; ++i) {
    CropBox box = draw(width, height, i);
    box.flip = false;
    fallbacks += box == middle;
  }
  expect_fit({fallbacks, kDraws - fallbacks}, {none, 1 - none});
}

}  // namespace
}  // namespace dtn
