#include "data/sample/erasing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "core/normal_noise.h"
#include "data/sample/transforms.h"
#include "golden/data/fixtures.h"
#include "statistics.h"
#include "transform_runs.h"

namespace dtn {
namespace {

constexpr std::uint64_t kDraws = 100000;

TEST(SampleErase, MatchesRandomErasingDistribution) {
  // The image is so large that rounding is negligible. A try fails if a side exceeds the image. So
  // the density of the area falls from 0.3 on, where the most elongated boxes no longer fit.
  constexpr int kSide = 20000;
  const double most = std::log(1 / 0.3);  // bound of the log aspect ratio
  const auto grown = [&](double a) { return a - a * std::log(a); };  // integral of -log
  const auto mass = [&](double a) {
    return a <= 0.3 ? a - 0.02 : 0.28 + (grown(a) - grown(0.3)) / most;
  };
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> within(0, 1);
  std::vector<double> area, aspect, top, left;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const auto box = sample_erase(kSide, kSide, 1, {3, 4, i});
    ASSERT_TRUE(box && box->left >= 0 && box->top >= 0 && box->left + box->width <= kSide &&
                box->top + box->height <= kSide && box->width < kSide && box->height < kSide);
    const double share = static_cast<double>(box->width) * box->height / kSide / kSide;
    const double ratio = std::log(static_cast<double>(box->height) / box->width);
    area.push_back(std::clamp(mass(share) / mass(1.0 / 3), 0.0, 1.0));
    aspect.push_back((ratio / std::min(most, -std::log(share)) + 1) / 2);
    top.push_back((box->top + within(random)) / (kSide - box->height + 1));
    left.push_back((box->left + within(random)) / (kSide - box->width + 1));
  }
  EXPECT_GT(test::p_uniform(area), 0.001);
  EXPECT_GT(test::p_uniform(aspect), 0.001);
  EXPECT_GT(test::p_uniform(top), 0.001);
  EXPECT_GT(test::p_uniform(left), 0.001);
}

TEST(SampleErase, ErasesWithGivenProbability) {
  for (double chance : {0.0, 0.25, 1.0}) {
    std::int64_t boxes = 0;
    std::set<std::uint64_t> noises;
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      if (const auto box = sample_erase(224, 224, chance, {1, 0, i})) {
        ++boxes;
        noises.insert(box->noise);
      }
    }
    const auto n = static_cast<std::int64_t>(kDraws);
    if (chance == 0.25) {
      EXPECT_GT(test::p_counts({boxes, n - boxes}, {n * chance, n * (1 - chance)}), 0.001);
    } else {
      EXPECT_EQ(boxes, chance * n);
    }
    EXPECT_EQ(noises.size(), static_cast<std::size_t>(boxes));
  }
}

TEST(SampleErase, DependsOnKeyOnly) {
  const auto box = sample_erase(224, 200, 1, {1, 2, 3});
  EXPECT_EQ(box, sample_erase(224, 200, 1, {1, 2, 3}));
  EXPECT_NE(box, sample_erase(224, 200, 1, {2, 2, 3}));
  EXPECT_NE(box, sample_erase(224, 200, 1, {1, 3, 3}));
  EXPECT_NE(box, sample_erase(224, 200, 1, {1, 2, 4}));
}

// Python's round(): half to even.
int python_round(double x) {
  const double below = std::floor(x);
  if (x - below != 0.5) return static_cast<int>(std::floor(x + 0.5));
  return static_cast<int>(std::fmod(below, 2) == 0 ? below : below + 1);
}

TEST(EraseShape, MatchesFormula) {
  int fits = 0, refused = 0;
  for (auto [width, height] : {std::pair{224, 224}, {32, 32}, {7, 19}, {4, 4}, {1, 1}}) {
    for (int i = 0; i <= 60; ++i) {
      for (int k = 0; k <= 60; ++k) {
        const double area = 0.02 + (1.0 / 3 - 0.02) * i / 60;
        const double aspect = std::exp(std::log(0.3) * (1 - k / 30.0));
        const double target = area * (height * width);
        const int h = python_round(std::sqrt(target * aspect));
        const int w = python_round(std::sqrt(target / aspect));
        const auto box = erase_shape(width, height, area, aspect);
        ASSERT_EQ(box.has_value(), w < width && h < height);
        box ? ++fits : ++refused;
        if (box) {
          ASSERT_EQ(*box, (EraseBox{0, 0, w, h, 0}));
        }
      }
    }
  }
  EXPECT_GT(fits, 10000);
  EXPECT_GT(refused, 500);
}

TEST(SampleErase, StaysInsideTinyImages) {
  for (auto [width, height] : {std::pair{1, 1}, {2, 1}, {2, 2}, {3, 50}, {8, 8}}) {
    int boxes = 0;
    for (std::uint64_t i = 0; i < 500; ++i) {
      const auto box = sample_erase(width, height, 1, {0, 0, i});
      if (!box) continue;
      ++boxes;
      ASSERT_TRUE(box->width > 0 && box->height > 0 && box->width < width && box->height < height);
      ASSERT_TRUE(box->left >= 0 && box->top >= 0 && box->left + box->width <= width &&
                  box->top + box->height <= height);
    }
    EXPECT_EQ(boxes > 0, width > 1 && height > 1);
  }
}

// Only in training, after all other stages. The noise depends on the position in the image.
TEST(SampleErase, TransformsFillBoxWithNoise) {
  constexpr int kSide = 21;
  AugmentConfig plain, erasing;
  erasing.erase = 0.5;
  TransformWorkspace workspace;
  const auto bytes = golden::image_bytes("420.jpg");
  for (AugmentPreset preset : {AugmentPreset::kNone, AugmentPreset::kLight}) {
    plain.preset = erasing.preset = preset;
    const Transform without({}, plain, kSide, 3, true), with({}, erasing, kSide, 3, true);
    const Transform evaluation({}, erasing, kSide, 3, false), never({}, plain, kSide, 3, false);
    EXPECT_TRUE(with.erases());
    EXPECT_FALSE(without.erases() || evaluation.erases());
    int erased = 0;
    for (std::uint64_t sample = 0; sample < 40; ++sample) {
      const SampleKey key{2, 1, sample};
      const auto prepare = [&](const Transform& transform) {
        std::vector<float> out(3 * kSide * kSide);
        test::decode_and_apply(transform, bytes, "420.jpg", key, workspace, out.data());
        return out;
      };
      std::vector<float> expected = prepare(without);
      const auto box = sample_erase(kSide, kSide, 0.5, key);
      EXPECT_EQ(with.erasure(key), box);
      if (box) {
        ++erased;
        std::vector<float> noise(expected.size());
        write_noise(box->noise, 0, static_cast<std::int64_t>(noise.size()), noise.data());
        for (int i = 0; i < 3 * kSide * kSide; ++i) {
          const int x = i % kSide, y = i / kSide % kSide;
          const bool inside = x >= box->left && x < box->left + box->width && y >= box->top &&
                              y < box->top + box->height;
          if (inside) expected[static_cast<std::size_t>(i)] = noise[static_cast<std::size_t>(i)];
        }
      }
      EXPECT_EQ(prepare(with), expected) << sample;
      EXPECT_EQ(prepare(evaluation), prepare(never));
    }
    EXPECT_TRUE(erased > 5 && erased < 35) << erased;
  }
}

}  // namespace
}  // namespace dtn
