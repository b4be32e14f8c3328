#include "data/sample/mixing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "statistics.h"

namespace dtn {
namespace {

constexpr int kDraws = 100000;

AugmentConfig deit() {
  AugmentConfig a;
  a.mixup = 0.8;
  a.cutmix = 1;
  return a;
}

std::vector<BatchMix> draw(const AugmentConfig& augment, int side, std::uint64_t seed) {
  std::vector<BatchMix> mixes;
  for (int i = 0; i < kDraws; ++i) {
    mixes.push_back(sample_mix(side, side, augment, {seed, 2, static_cast<std::uint64_t>(i)}));
  }
  return mixes;
}

TEST(SymmetricBeta, MatchesDistribution) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(0x1p-60, 1);
  // Tests the lower half: a number near 1 does not represent its distance from 1 accurately.
  for (double a : {0.03, 0.5, 0.8, 1.0, 3.0, 50.0, 1000.0}) {
    constexpr int kFew = kDraws / 5;
    std::vector<double> at, off;
    for (int i = 0; i < kFew; ++i) {
      const double u = uniform(random), x = symmetric_beta(a, u, uniform(random));
      ASSERT_TRUE(0 <= x && x <= 1);
      if (x >= 0.5) continue;
      at.push_back(2 * test::beta_cdf(a, x));
      off.push_back(2 * test::beta_cdf(1.4 * a, x));
    }
    const auto low = static_cast<std::int64_t>(at.size());
    EXPECT_GT(test::p_counts({low, kFew - low}, {kFew / 2, kFew / 2}), 0.001) << a;
    EXPECT_GT(test::p_uniform(at), 0.001) << a;
    EXPECT_LT(test::p_uniform(off), 0.001) << "the test does not see a parameter that is wrong";
  }
  // The result is valid for all inputs.
  for (double u : {0x1p-53, 0.5, 1 - 0x1p-53}) {
    for (double v : {0x1p-53, 0.25, 0.5, 0.75, 1 - 0x1p-53}) {
      for (double a : {1e-300, 1e-3, 1000.0}) {
        const double x = symmetric_beta(a, u, v);
        EXPECT_TRUE(0 <= x && x <= 1) << a << " " << u << " " << v;
      }
    }
  }
}

TEST(SampleMix, MixupWeightsAreBetaDistributed) {
  AugmentConfig augment = deit();
  augment.cutmix = 0;
  std::vector<double> at;
  for (const BatchMix& mix : draw(augment, 224, 1)) {
    ASSERT_FALSE(mix.cut);
    at.push_back(test::beta_cdf(0.8, mix.share));
  }
  EXPECT_GT(test::p_uniform(at), 0.001);
}

TEST(SampleMix, MixesWithGivenProbabilities) {
  AugmentConfig augment = deit();
  augment.mix_chance = 0.7;
  augment.mix_switch = 0.4;
  std::int64_t none = 0, cut = 0;
  for (const BatchMix& mix : draw(augment, 64, 5)) {
    none += mix == BatchMix{};
    cut += mix.cut;
  }
  EXPECT_GT(test::p_counts({none, cut, kDraws - none - cut},
                           {0.3 * kDraws, 0.7 * 0.4 * kDraws, 0.7 * 0.6 * kDraws}),
            0.001);
  for (double chance : {0.0, 1.0}) {
    augment.mix_chance = chance;
    augment.mix_switch = 1;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(sample_mix(64, 64, augment, {0, 0, i}).cut, chance == 1);
    }
  }
  EXPECT_EQ(sample_mix(64, 64, {}, {}), BatchMix{});
}

// timm's rand_bbox and cutmix_bbox_and_lam, with Python's arithmetic.
BatchMix transcribed(int img_w, int img_h, double lam, int cx, int cy) {
  const double ratio = std::sqrt(1 - lam);
  const int cut_h = static_cast<int>(img_h * ratio), cut_w = static_cast<int>(img_w * ratio);
  const auto clip = [](int v, int most) { return v < 0 ? 0 : v > most ? most : v; };
  const int yl = clip(cy - cut_h / 2, img_h), yh = clip(cy + cut_h / 2, img_h);
  const int xl = clip(cx - cut_w / 2, img_w), xh = clip(cx + cut_w / 2, img_w);
  const int area = (yh - yl) * (xh - xl);
  return {1 - area / static_cast<double>(img_h * img_w), true, xl, yl, xh - xl, yh - yl};
}

TEST(CutBox, MatchesFormulas) {
  for (auto [width, height] : {std::pair{1, 1}, {7, 5}, {16, 16}, {32, 24}}) {
    for (int k = 0; k <= 50; ++k) {
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          const BatchMix want = transcribed(width, height, k / 50.0, x, y);
          ASSERT_EQ(cut_box(width, height, k / 50.0, x, y), want);
        }
      }
    }
  }
  EXPECT_EQ(cut_box(224, 224, 0, 112, 112), (BatchMix{0, true, 0, 0, 224, 224}));
  EXPECT_EQ(cut_box(224, 224, 0.75, 0, 223),
            (BatchMix{1 - 56 * 57 / (224.0 * 224), true, 0, 167, 56, 57}));
}

// Compares with this transcription on independent random numbers: the remaining shares, which
// depend on size and place, and the positions of the boxes.
TEST(SampleMix, CutMixBoxesAreDistributedLikeTimm) {
  AugmentConfig augment = deit();
  augment.mixup = 0;
  std::mt19937_64 random(11);
  std::gamma_distribution<double> gamma(1);
  std::uniform_int_distribution<int> place(0, 31);
  std::vector<double> share, left, top, want_share, want_left, want_top;
  for (const BatchMix& mix : draw(augment, 32, 9)) {
    const double a = gamma(random), b = gamma(random);
    const int x = place(random), y = place(random);
    const BatchMix want = transcribed(32, 32, a / (a + b), x, y);
    share.push_back(mix.share);
    left.push_back(mix.left);
    top.push_back(mix.top);
    want_share.push_back(want.share);
    want_left.push_back(want.left);
    want_top.push_back(want.top);
    ASSERT_EQ(mix.share, 1 - mix.width * mix.height / 1024.0);
  }
  EXPECT_GT(test::p_same(share, want_share), 0.001);
  EXPECT_GT(test::p_same(left, want_left), 0.001);
  EXPECT_GT(test::p_same(top, want_top), 0.001);
  for (double& s : share) s -= 0.01;
  EXPECT_LT(test::p_same(share, want_share), 0.001);
}

TEST(SampleMix, StopsAtMixOffEpoch) {
  AugmentConfig off = deit();
  off.mix_off_epoch = 3;
  for (std::uint64_t batch = 0; batch < 20; ++batch) {
    for (std::uint32_t epoch : {0u, 2u}) {
      const BatchMix mix = sample_mix(32, 32, off, {1, epoch, batch});
      EXPECT_NE(mix.share, 1);
      EXPECT_EQ(mix, sample_mix(32, 32, deit(), {1, epoch, batch})) << "the same draws";
    }
    for (std::uint32_t epoch : {3u, 4u, 1000u}) {
      EXPECT_EQ(sample_mix(32, 32, off, {1, epoch, batch}), BatchMix{}) << epoch;
    }
  }
}

TEST(SampleMix, DependsOnKeyOnly) {
  const AugmentConfig augment = deit();
  const BatchMix mix = sample_mix(32, 32, augment, {1, 2, 3});
  EXPECT_EQ(mix, sample_mix(32, 32, augment, {1, 2, 3}));
  EXPECT_NE(mix, sample_mix(32, 32, augment, {2, 2, 3}));
  EXPECT_NE(mix, sample_mix(32, 32, augment, {1, 3, 3}));
  EXPECT_NE(mix, sample_mix(32, 32, augment, {1, 2, 4}));
}

}  // namespace
}  // namespace dtn
