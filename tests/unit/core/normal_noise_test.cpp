#include "core/normal_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "statistics.h"

namespace dtn {
namespace {

constexpr std::int64_t kDraws = 100000;

std::vector<float> noise(std::uint64_t seed, std::uint64_t first, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  write_noise(seed, first, count, values.data());
  return values;
}

double normal_cdf(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

TEST(NormalNoise, TableMatchesNormalDistribution) {
  const float* table = normal_table();
  double square = 0, fourth = 0;
  for (int i = 0; i < kNormalTableSize; ++i) {
    const double z = table[i];
    square += z * z / kNormalTableSize;
    fourth += z * z * z * z / kNormalTableSize;
    // Each entry lies in its quantile interval.
    ASSERT_GT(2 * normal_cdf(z) - 1, static_cast<double>(i) / kNormalTableSize) << i;
    ASSERT_LT(2 * normal_cdf(z) - 1, (i + 1.0) / kNormalTableSize) << i;
  }
  EXPECT_NEAR(square, 1, 1e-8);
  EXPECT_NEAR(fourth, 3, 3e-4);
  EXPECT_LT(table[kNormalTableSize - 1], 4.4f);
}

TEST(NormalNoise, DrawsAreNormal) {
  const std::vector<float> values = noise(5, 0, kDraws);
  double moments[4] = {};
  std::vector<double> at;
  for (double v : values) {
    at.push_back(normal_cdf(v));
    for (int k = 0; k < 4; ++k) moments[k] += std::pow(v, k + 1) / kDraws;
  }
  EXPECT_GT(test::p_uniform(at), 0.001);
  // Tolerance: four standard errors. The variances of z, z^2, z^3 and z^4 are 1, 2, 15 and 96.
  const double expected[] = {0, 1, 0, 3}, variance[] = {1, 2, 15, 96};
  for (int k = 0; k < 4; ++k) {
    EXPECT_NEAR(moments[k], expected[k], 4 * std::sqrt(variance[k] / kDraws)) << k + 1;
  }
  // Neighbors, both halves of a word, and different sequences are uncorrelated.
  const std::vector<float> other = noise(6, 0, kDraws);
  for (std::size_t lag : {0, 1, 2, 8}) {
    const std::vector<float>& with = lag ? values : other;
    double product = 0;
    for (std::size_t i = 0; i + lag < values.size(); ++i) product += values[i] * with[i + lag];
    EXPECT_LT(std::abs(product), 4 * std::sqrt(kDraws)) << lag;
  }
  // The test detects a 3 % error of the scale.
  for (double& u : at) u = normal_cdf(1.03 * values[static_cast<std::size_t>(&u - at.data())]);
  EXPECT_LT(test::p_uniform(at), 0.001);
}

TEST(NormalNoise, AnyRangeMatchesWholeSequence) {
  const std::vector<float> whole = noise(7, 0, 64);
  for (std::uint64_t first = 0; first < 20; ++first) {
    for (std::int64_t count : {0, 1, 3, 8, 17, 40}) {
      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(first);
      EXPECT_EQ(noise(7, first, count), std::vector<float>(begin, begin + count));
    }
  }
  EXPECT_NE(noise(8, 0, 64), whole);
  EXPECT_NE(noise(7ull << 32, 0, 64), whole);
}

}  // namespace
}  // namespace dtn
