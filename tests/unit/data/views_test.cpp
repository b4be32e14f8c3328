// The distribution of the choices for views. Their pixels are compared with Pillow in
// golden/data/view_pixels_test.cpp.
#include "data/sample/views.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "chi_square.h"
#include "data/sample/image_kernels.h"
#include "data/sample/instruction_set.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

using test::chi_square;

constexpr int kDraws = 20000;

ViewAugment local_view() {
  ViewAugment augment;
  augment.crop.scale_min = 0.05;
  augment.crop.scale_max = 0.4;
  augment.jitter = {0.4, 0.4, 0.2, 0.1};
  augment.gray = 0.2;
  augment.blur = 0.5;
  augment.solarize = 0.3;
  return augment;
}

std::vector<ViewDraw> draws_of(const ViewAugment& augment, int view = 3) {
  std::vector<ViewDraw> draws;
  for (int i = 0; i < kDraws; ++i) {
    draws.push_back(draw_view(augment, 500, 375, {7, 2, static_cast<std::uint64_t>(i)}, view));
  }
  return draws;
}

// Checks by chi-square, with bins of equal probability, that values are uniform in [low, high].
void expect_uniform(const std::vector<double>& values, double low, double high) {
  constexpr std::size_t kBins = 20;
  std::vector<double> counts(kBins), equal(kBins, 1);
  for (const double v : values) {
    ASSERT_GE(v, low);
    ASSERT_LE(v, high);
    const double bin = (v - low) / (high - low) * kBins;
    ++counts[std::min(kBins - 1, static_cast<std::size_t>(bin))];
  }
  const auto [statistic, bound] = chi_square(counts, equal);
  EXPECT_LT(statistic, bound);
}

// Checks a frequency within 3.5 standard deviations.
void expect_chance(const std::vector<ViewDraw>& draws, double chance,
                   const std::function<bool(const ViewDraw&)>& happened) {
  const auto count = static_cast<double>(std::ranges::count_if(draws, happened));
  const auto n = static_cast<double>(draws.size());
  EXPECT_NEAR(count / n, chance, 3.5 * std::sqrt(chance * (1 - chance) / n));
}

TEST(ViewDraws, HaveTheProbabilitiesOfTheConfig) {
  const std::vector<ViewDraw> draws = draws_of(local_view());
  expect_chance(draws, 0.5, [](const ViewDraw& d) { return d.flip; });
  expect_chance(draws, 0.8, [](const ViewDraw& d) { return d.hue.has_value(); });
  expect_chance(draws, 0.2, [](const ViewDraw& d) { return d.gray; });
  expect_chance(draws, 0.5, [](const ViewDraw& d) { return d.sigma > 0; });
  expect_chance(draws, 0.3, [](const ViewDraw& d) { return d.solarize; });
  // Independent of one another: 0.8 * 0.2 * 0.5 * 0.3 * 0.5.
  expect_chance(draws, 0.012, [](const ViewDraw& d) {
    return d.hue && d.gray && d.sigma > 0 && d.solarize && d.flip;
  });
}

TEST(ViewDraws, AreCertainOrImpossibleAtTheEnds) {
  ViewAugment never = local_view();
  never.jitter = {};
  never.gray = never.blur = never.solarize = 0;
  never.crop.hflip = 0;
  ViewAugment always = local_view();
  always.jitter_chance = always.gray = always.blur = always.solarize = 1;
  always.crop.hflip = 1;
  for (const ViewDraw& d : draws_of(never)) {
    EXPECT_TRUE(!d.flip && !d.hue && !d.gray && d.sigma == 0 && !d.solarize);
    EXPECT_EQ(d.factors, (std::array<double, 3>{1, 1, 1}));
  }
  for (const ViewDraw& d : draws_of(always)) {
    EXPECT_TRUE(d.flip && d.hue && d.gray && d.sigma > 0 && d.solarize);
  }
}

TEST(ViewDraws, AreUniformInTheirRanges) {
  std::vector<double> brightness, contrast, saturation, hue, sigma;
  for (const ViewDraw& d : draws_of(local_view())) {
    if (d.sigma > 0) sigma.push_back(d.sigma);
    if (!d.hue) continue;
    brightness.push_back(d.factors[0]);
    contrast.push_back(d.factors[1]);
    saturation.push_back(d.factors[2]);
    hue.push_back(*d.hue);
  }
  expect_uniform(brightness, 0.6, 1.4);
  expect_uniform(contrast, 0.6, 1.4);
  expect_uniform(saturation, 0.8, 1.2);
  expect_uniform(hue, -0.1, 0.1);
  expect_uniform(sigma, 0.1, 2.0);
}

TEST(ViewDraws, UseEveryOrderOfTheJitterEquallyOften) {
  std::map<std::array<ColorProperty, 4>, double> counts;
  for (const ViewDraw& d : draws_of(local_view())) {
    if (d.hue) ++counts[d.order];
  }
  EXPECT_EQ(counts.size(), 24u);
  std::vector<double> values;
  for (const auto& [order, count] : counts) values.push_back(count);
  const auto [statistic, bound] = chi_square(values, std::vector<double>(values.size(), 1));
  EXPECT_LT(statistic, bound);
}

// A crop of this area and ratio always fits, so no try fails and the area is uniform.
TEST(ViewDraws, CropTheAreasOfTheConfig) {
  ViewAugment augment = local_view();
  std::vector<double> areas, ratios;
  for (int i = 0; i < kDraws; ++i) {
    const ViewDraw d = draw_view(augment, 4000, 3000, {7, 2, static_cast<std::uint64_t>(i)}, 3);
    const double width = d.crop.x1 - d.crop.x0, height = d.crop.y1 - d.crop.y0;
    EXPECT_TRUE(0 <= d.crop.x0 && d.crop.x1 <= 4000 && 0 <= d.crop.y0 && d.crop.y1 <= 3000);
    areas.push_back(width * height / (4000.0 * 3000.0));
    ratios.push_back(std::log(width / height));
  }
  // The sides are rounded to whole pixels, so the ends of the ranges are exceeded a little.
  const auto expect_almost_uniform = [](std::vector<double> values, double low, double high) {
    for (double& v : values) {
      EXPECT_NEAR(v, std::clamp(v, low, high), 1e-3);
      v = std::clamp(v, low, high);
    }
    expect_uniform(values, low, high);
  };
  expect_almost_uniform(areas, 0.05, 0.4);
  expect_almost_uniform(ratios, std::log(0.75), std::log(4.0 / 3));
}

TEST(ViewDraws, DependOnSeedEpochSampleAndView) {
  const ViewAugment augment = local_view();
  std::set<double> hues;
  int with_hue = 0;
  for (std::uint64_t seed : {1, 2}) {
    for (std::uint32_t epoch : {0, 1}) {
      for (std::uint64_t sample : {0, 1, 2}) {
        for (int view = 0; view < 4; ++view) {
          const SampleKey key{seed, epoch, sample};
          const ViewDraw a = draw_view(augment, 500, 375, key, view);
          const ViewDraw b = draw_view(augment, 500, 375, key, view);
          EXPECT_EQ(a.hue, b.hue);
          if (!a.hue) continue;
          ++with_hue;
          hues.insert(*a.hue);
        }
      }
    }
  }
  EXPECT_GT(with_hue, 24);
  EXPECT_EQ(hues.size(), static_cast<std::size_t>(with_hue));
  EXPECT_THROW(draw_view(augment, 500, 375, {}, -1), Error);
  EXPECT_THROW(draw_view(augment, 500, 375, {}, 1 << 20), Error);
}

// One colour by the formulas of Pillow's Convert.c (rgb2hsv_row, hsv2rgb), written once more.
std::array<std::uint8_t, 3> turned(int r, int g, int b, int turn) {
  const int high = std::max({r, g, b}), low = std::min({r, g, b});
  int hue = 0, saturation = 0;
  if (high != low) {
    const auto range = static_cast<float>(high - low);
    const float rc = static_cast<float>(high - r) / range;
    const float gc = static_cast<float>(high - g) / range;
    const float bc = static_cast<float>(high - b) / range;
    const auto h = static_cast<float>(r == high   ? bc - gc
                                      : g == high ? 2.0 + rc - bc
                                                  : 4.0 + gc - rc);
    hue = static_cast<int>(static_cast<float>(std::fmod(h / 6.0 + 1.0, 1.0)) * 255.0);
    saturation = static_cast<int>(range / static_cast<float>(high) * 255.0);
  }
  const int v = high;
  const double sixths = static_cast<float>((hue + turn) % 256) * 6.0 / 255.0;
  const double sector = std::floor(sixths);
  const auto f = static_cast<float>(sixths - sector);
  const auto fs = static_cast<float>(static_cast<float>(saturation) / 255.0);
  const auto byte = [](double x) { return static_cast<std::uint8_t>(std::round(x)); };
  const auto p = byte(v * (1.0 - fs)), q = byte(v * (1.0 - static_cast<double>(fs * f))),
             t = byte(v * (1.0 - fs * (1.0 - f))), whole = static_cast<std::uint8_t>(v);
  switch (static_cast<int>(sector) % 6) {
    case 0: return {whole, t, p};
    case 1: return {q, whole, p};
    case 2: return {p, whole, t};
    case 3: return {p, q, whole};
    case 4: return {t, p, whole};
    default: return {whole, p, q};
  }
}

// Every 7th of all colours; 7 divides no power of 2, so every value of each channel occurs.
TEST(TurnHue, EqualsPillowForAllColors) {
  for (const int turn : {0, 25, 231}) {
    std::vector<std::uint8_t> colors, want;
    for (int i = 0; i < 1 << 24; i += 7) {
      const int r = i & 255, g = i >> 8 & 255, b = i >> 16;
      for (const int c : {r, g, b}) colors.push_back(static_cast<std::uint8_t>(c));
      for (const std::uint8_t c : turned(r, g, b, turn)) want.push_back(c);
    }
    for (const int level : {0, 1, 2}) {
      limit_instruction_set(level);
      std::vector<std::uint8_t> got = colors;
      image_kernels::kernels().turn_hue(got.data(), static_cast<std::int64_t>(got.size() / 3),
                                        turn);
      EXPECT_TRUE(got == want) << "turn " << turn << ", instruction set " << level;
    }
  }
  limit_instruction_set(2);
}

}  // namespace
}  // namespace dtn
