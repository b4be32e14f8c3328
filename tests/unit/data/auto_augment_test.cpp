#include "data/sample/auto_augment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include "data/sample/transforms.h"
#include "dtn/core/check.h"
#include "golden/data/fixtures.h"

namespace dtn {
namespace {

using Op = AugmentOp;

// The p-value of a chi-square statistic: the regularized upper incomplete gamma function
// Q(dof / 2, x / 2), by its series or its continued fraction.
double chi_square_p(double x, double dof) {
  const double a = dof / 2, h = x / 2;
  const double front = std::exp(a * std::log(h) - h - std::lgamma(a));
  if (h < a + 1) {
    double term = 1 / a, sum = term;
    for (double n = a + 1; term > sum * 1e-12; ++n) sum += term *= h / n;
    return 1 - front * sum;
  }
  double fraction = 0;
  for (int n = 300; n > 0; --n) fraction = n * (n - a) / (h + 2 * n + 1 - a - fraction);
  return front / (h + 1 - a - fraction);
}

// The p-value of counts of independent events with these probabilities.
double p_value(const std::vector<double>& counts, const std::vector<double>& probabilities) {
  const double n = std::accumulate(counts.begin(), counts.end(), 0.0);
  double x = 0;
  int cells = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = n * probabilities[i];
    if (probabilities[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "cell " << i;
      continue;
    }
    EXPECT_GT(expected, 5) << "cell " << i;
    x += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++cells;
  }
  return chi_square_p(x, cells - 1);
}
double p_uniform(const std::vector<double>& counts) {
  return p_value(counts, std::vector<double>(counts.size(), 1.0 / counts.size()));
}

// Tests that values are uniform in [low, high], with twenty bins.
class Evenness {
 public:
  Evenness(double low, double high) : low_(low), high_(high), counts_(20) {}
  void add(double v) {
    ASSERT_TRUE(low_ <= v && v <= high_) << v;
    ++counts_[std::min<std::size_t>(19,
                                    static_cast<std::size_t>(20 * (v - low_) / (high_ - low_)))];
  }
  double p() const { return p_uniform(counts_); }

 private:
  double low_, high_;
  std::vector<double> counts_;
};

constexpr std::uint64_t kDraws = 100000;
constexpr double kMinP = 0.001;

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(AutoAugment, ChiSquareMatchesTables) {  // tables: the 5 % and 0.1 % points
  EXPECT_NEAR(chi_square_p(3.841, 1), 0.05, 1e-4);
  EXPECT_NEAR(chi_square_p(36.123, 14), 0.001, 1e-5);
  EXPECT_NEAR(chi_square_p(6.571, 14), 0.95, 1e-3);
  EXPECT_NEAR(chi_square_p(268.4, 224), 0.0222, 2e-3);
}

TEST(AutoAugment, RandAugmentFollowsDistribution) {
  const AutoAugment augment("rand-m9-mstd0.5-inc1");
  std::vector<double> sizes(3), ops(kRandAugmentOps), pairs(kRandAugmentOps * kRandAugmentOps),
      magnitudes(12), signs(2 * 9);
  const std::map<Op, double> unit = {
      {Op::kRotate, 3},        {Op::kColor, 0.09},       {Op::kContrast, 0.09},
      {Op::kBrightness, 0.09}, {Op::kSharpness, 0.09},   {Op::kShearX, 0.03},
      {Op::kShearY, 0.03},     {Op::kTranslateX, 0.045}, {Op::kTranslateY, 0.045}};
  for (std::uint64_t sample = 0; sample < kDraws; ++sample) {
    const AugmentDraw draw = augment.draw({3, 7, sample});
    ++sizes[static_cast<std::size_t>(draw.count)];
    std::size_t pair = 0;
    for (const AugmentStep& step : draw) {
      const auto op = static_cast<std::size_t>(step.op);
      ++ops[op];
      pair = pair * kRandAugmentOps + op;
      const auto two_sided = unit.find(step.op);
      if (two_sided == unit.end()) continue;
      const bool factor = Op::kColor <= step.op && step.op <= Op::kSharpness;
      const double signed_magnitude = (step.argument - factor) / two_sided->second;
      const auto which = static_cast<std::size_t>(std::distance(unit.begin(), two_sided));
      ++signs[2 * which + (signed_magnitude < 0)];
      const double m = std::fabs(signed_magnitude);
      ASSERT_LE(m, 10 + 1e-9);
      // Bins of 0.2 from 8 to 10; the last bin holds the values clipped to 10.
      ++magnitudes[m > 10 - 1e-9 ? 11
                                 : static_cast<std::size_t>(std::clamp((m - 7.8) * 5, 0.0, 10.0))];
    }
    if (draw.count == 2) ++pairs[pair];
  }
  EXPECT_GT(p_value(sizes, {0.25, 0.5, 0.25}), kMinP);
  EXPECT_GT(p_uniform(ops), kMinP);
  EXPECT_GT(p_uniform(pairs), kMinP);
  std::vector<double> expected(12);
  for (int i = 1; i <= 10; ++i)
    expected[static_cast<std::size_t>(i)] =
        normal_cdf((7.8 + 0.2 * (i + 1) - 9) / 0.5) - normal_cdf((7.8 + 0.2 * i - 9) / 0.5);
  expected[0] = normal_cdf((8.0 - 9) / 0.5);
  expected[11] = 1 - normal_cdf((10 - 9) / 0.5);
  EXPECT_GT(p_value(magnitudes, expected), kMinP);
  EXPECT_GT(p_uniform(signs), kMinP);
}

// Without noise the argument is the policy's magnitude up to its sign; n and w act as in timm.
TEST(AutoAugment, DrawsWeightedOperationsWithoutReplacement) {
  const AutoAugment augment("rand-m5-n8-w0");
  const std::vector<double> weights = {0.025, 0.005, 0,     0.3, 0,   0.005, 0.005, 0.025,
                                       0.005, 0.005, 0.025, 0.2, 0.2, 0.1,   0.1};
  std::vector<double> first(kRandAugmentOps), sizes(9), binomial(9);
  const AutoAugment one("rand-m5-n1-w0");
  for (std::uint64_t sample = 0; sample < kDraws; ++sample) {
    for (const AugmentStep& step : one.draw({4, 0, sample}))
      ++first[static_cast<std::size_t>(step.op)];
    const AugmentDraw draw = augment.draw({4, 1, sample});
    ++sizes[static_cast<std::size_t>(draw.count)];
    std::uint32_t seen = 0;
    for (const AugmentStep& step : draw) {
      const auto bit = 1u << static_cast<unsigned>(step.op);
      EXPECT_EQ(seen & bit, 0u);
      seen |= bit;
      if (step.op == Op::kSolarize) {
        EXPECT_EQ(step.argument, 128);
      }
      if (step.op == Op::kColor) {
        EXPECT_EQ(step.argument, 1.0);
      }
      if (step.op == Op::kRotate) {
        EXPECT_EQ(std::fabs(step.argument), 15);
      }
    }
  }
  EXPECT_GT(p_value(first, weights), kMinP);
  const double choose[] = {1, 8, 28, 56, 70, 56, 28, 8, 1};
  for (std::size_t k = 0; k < 9; ++k) binomial[k] = choose[k] / 256;
  EXPECT_GT(p_value(sizes, binomial), kMinP);
}

TEST(AutoAugment, RandomInterpolationDrawsFilterPerOperation) {
  const std::string policy = "rand-m9-mstd0.5-inc1";
  const AutoAugment usual(policy);
  const AutoAugment random(policy, geometry_for({.interpolation = Interpolation::kBicubic,
                                                 .mean = {0.5f},
                                                 .random_interpolation = true}));
  std::vector<double> filters(2);
  for (std::uint64_t sample = 0; sample < 20000; ++sample) {
    const AugmentDraw with = random.draw({5, 2, sample}), without = usual.draw({5, 2, sample});
    ASSERT_EQ(with.count, without.count);
    for (int i = 0; i < with.count; ++i) {
      AugmentStep step = with.steps[static_cast<std::size_t>(i)];
      ASSERT_TRUE(step.filter.has_value());
      ++filters[*step.filter == AffineFilter::kBilinear ? 0 : 1];
      step.filter.reset();
      EXPECT_EQ(step, without.steps[static_cast<std::size_t>(i)]) << "all else is as it was";
    }
  }
  EXPECT_GT(p_uniform(filters), kMinP);
}

TEST(AutoAugment, ThreeAugmentFollowsDistribution) {
  const AutoAugment augment("three");
  std::vector<double> ops(3);
  Evenness radius(0.1, 2.0);
  for (std::uint64_t sample = 0; sample < kDraws; ++sample) {
    const AugmentDraw draw = augment.draw({5, 2, sample});
    ASSERT_EQ(draw.count, 1);
    const AugmentStep& step = draw.steps[0];
    const bool gray = step.op == Op::kGrayscale, blur = step.op == Op::kGaussianBlur;
    ++ops[gray ? 0 : blur ? 1 : 2];
    if (blur) radius.add(step.argument);
    if (!gray && !blur) {
      EXPECT_EQ(step, (AugmentStep{Op::kSolarize, 128}));
    }
  }
  EXPECT_GT(p_uniform(ops), kMinP);
  EXPECT_GT(radius.p(), kMinP);
}

TEST(AutoAugment, ColorJitterFollowsDistribution) {
  const ColorJitter jitter(0.4, 1.5, 0.3, 0.1);
  std::map<std::vector<Op>, double> orders;
  std::map<Op, Evenness> arguments;
  arguments.emplace(Op::kBrightness, Evenness(0.6, 1.4));
  arguments.emplace(Op::kContrast, Evenness(0, 2.5));
  arguments.emplace(Op::kColor, Evenness(0.7, 1.3));
  arguments.emplace(Op::kHue, Evenness(-0.1, 0.1));
  for (std::uint64_t sample = 0; sample < kDraws; ++sample) {
    std::vector<Op> order;
    for (const AugmentStep& step : jitter.draw({6, 1, sample})) {
      order.push_back(step.op);
      arguments.at(step.op).add(step.argument);
    }
    ++orders[order];
  }
  std::vector<double> counts;
  for (const auto& [order, count] : orders) counts.push_back(count);
  ASSERT_EQ(counts.size(), 24u);
  EXPECT_GT(p_uniform(counts), kMinP);
  for (const auto& [op, evenness] : arguments) EXPECT_GT(evenness.p(), kMinP);

  EXPECT_TRUE(jitter.active());
  EXPECT_FALSE(ColorJitter(0, 0, 0).active());
  EXPECT_EQ(ColorJitter(0, 0.2, 0).draw({1, 1, 1}).count, 1);
  EXPECT_THROW(ColorJitter(-0.1, 0, 0), ConfigError);
  EXPECT_THROW(ColorJitter(0, 0, 0, 0.6), ConfigError);
}

TEST(AutoAugment, ConvertsMagnitudesLikeTimm) {
  struct Row {
    Op op;
    double magnitude, plain, increasing;
  };
  // From timm 0.4.9, data/auto_augment.py, LEVEL_TO_ARG of both lists of operations.
  const Row rows[] = {{Op::kAutoContrast, 9, 0, 0},       {Op::kRotate, 9, 27, 27},
                      {Op::kPosterize, 9, 3, 1},          {Op::kPosterize, 10, 4, 0},
                      {Op::kPosterize, 0, 0, 4},          {Op::kSolarize, 9, 230, 26},
                      {Op::kSolarize, 10, 256, 0},        {Op::kSolarize, 0, 0, 256},
                      {Op::kSolarizeAdd, 9, 99, 99},      {Op::kSolarizeAdd, 10, 110, 110},
                      {Op::kColor, 9, 1.72, 1.81},        {Op::kContrast, 0, 0.1, 1},
                      {Op::kBrightness, 10, 1.9, 1.9},    {Op::kSharpness, 5, 1, 1.45},
                      {Op::kShearX, 9, 0.27, 0.27},       {Op::kShearY, 10, 0.3, 0.3},
                      {Op::kTranslateX, 9, 0.405, 0.405}, {Op::kTranslateY, 10, 0.45, 0.45}};
  for (const Row& r : rows) {
    EXPECT_NEAR(rand_augment_argument(r.op, r.magnitude, false, false), r.plain, 1e-12);
    EXPECT_NEAR(rand_augment_argument(r.op, r.magnitude, true, false), r.increasing, 1e-12);
  }
  EXPECT_NEAR(rand_augment_argument(Op::kRotate, 9, true, true), -27, 1e-12);
  EXPECT_NEAR(rand_augment_argument(Op::kColor, 9, true, true), 0.19, 1e-12);
  EXPECT_NEAR(rand_augment_argument(Op::kColor, 9, false, true), 1.72, 1e-12);
  EXPECT_EQ(rand_augment_argument(Op::kSolarize, 9, true, true), 26);
}

TEST(AutoAugment, ParsesTimmPolicyNames) {
  using Policy = RandAugmentPolicy;
  EXPECT_EQ(parse_rand_augment("rand"), (Policy{10, 2, false, 0, false}));
  EXPECT_EQ(parse_rand_augment("rand-m9-mstd0.5-inc1"), (Policy{9, 2, false, 0.5, true}));
  EXPECT_EQ(parse_rand_augment("rand-inc0-n3-w0-mstd1-m0"), (Policy{0, 3, true, 1, false}));
  EXPECT_FALSE(AutoAugment("none").active());
  EXPECT_EQ(AutoAugment("none").draw({1, 2, 3}).count, 0);
  const std::pair<const char*, const char*> wrong[] = {
      {"", "is not a policy"},         {"augmix-m3", "`augmix` is not a policy"},
      {"Three", "is not a policy"},    {"rand-", "`` is unknown"},
      {"rand-q3", "`q3` is unknown"},  {"rand-m", "whole number from 0 to 10 after `m`"},
      {"rand-m11", "whole number"},    {"rand-m9.5", "whole number"},
      {"rand-m9-m9", "appears twice"}, {"rand-n0", "from 1 to 8 after `n`"},
      {"rand-n9", "from 1 to 8"},      {"rand-w1", "from 0 to 0 after `w`"},
      {"rand-mstdx", "is unknown"},    {"rand-mstd1e9", "number from 0 to 10 after `mstd`"},
      {"rand-inc2", "from 0 to 1"},    {"rand-m 9", "is unknown"},
      {"rand-m+9", "whole number"},    {"rand-mstd99", "number from"}};
  for (const auto& [text, part] : wrong) {
    try {
      AutoAugment augment{text};
      ADD_FAILURE() << text;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("rand-m9-mstd0.5-inc1"), std::string::npos);
    }
  }
}

// Applying a policy equals applying each drawn operation with the policy's geometry.
TEST(AutoAugment, AppliesDrawnOperations) {
  const AugmentGeometry geometry{AffineFilter::kBilinear, {1, 2, 3}};
  const AutoAugment augment("rand-m9-n4-mstd0.5-inc1", geometry);
  for (const int channels : {1, 3}) {
    ImageOpsWorkspace workspace;
    for (std::uint64_t sample = 0; sample < 200; ++sample) {
      const SampleKey key{8, 2, sample};
      Image got = golden::procedural_image(5, 40, 30, channels), expected = got;
      augment.apply(got, key, workspace);
      ImageOpsWorkspace ws;
      for (const AugmentStep& step : augment.draw(key)) {
        const Op op = step.op;
        const double x = step.argument;
        switch (op) {
          case Op::kAutoContrast: auto_contrast(expected); break;
          case Op::kEqualize: equalize(expected); break;
          case Op::kInvert: invert(expected); break;
          case Op::kRotate: rotate(expected, x, geometry.filter, geometry.fill, ws); break;
          case Op::kPosterize: posterize(expected, static_cast<int>(x)); break;
          case Op::kSolarize: solarize(expected, static_cast<int>(x)); break;
          case Op::kSolarizeAdd: solarize_add(expected, static_cast<int>(x)); break;
          case Op::kColor: adjust_color(expected, x); break;
          case Op::kContrast: adjust_contrast(expected, x); break;
          case Op::kBrightness: adjust_brightness(expected, x); break;
          case Op::kSharpness: adjust_sharpness(expected, x, ws); break;
          default:
            const double across = op == Op::kShearX ? x : 0, along = op == Op::kShearY ? x : 0;
            const double left = op == Op::kTranslateX ? 40 * x : 0;
            const double up = op == Op::kTranslateY ? 30 * x : 0;
            transform_affine(expected, {1, across, left, along, 1, up}, geometry.filter,
                             geometry.fill, ws);
        }
      }
      ASSERT_EQ(got.pixels, expected.pixels) << "sample " << sample;
    }
  }
}

TEST(AutoAugment, DependsOnSeedEpochAndSampleOnly) {
  const AutoAugment augment("rand-m9-n8-mstd0.5-inc1"), again("rand-n8-inc1-m9-mstd0.5");
  const auto steps = [](const AutoAugment& a, const SampleKey& key) {
    const AugmentDraw draw = a.draw(key);
    return std::vector<AugmentStep>(draw.begin(), draw.end());
  };
  int same = 0;
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    const auto base = steps(augment, {1, 2, sample});
    EXPECT_EQ(base, steps(again, {1, 2, sample}));
    same += base == steps(augment, {2, 2, sample});
    same += base == steps(augment, {1, 3, sample});
    same += base == steps(augment, {1, 2, sample + 1});
  }
  EXPECT_LT(same, 15);  // 1 of 256 draws is empty
}

}  // namespace
}  // namespace dtn
