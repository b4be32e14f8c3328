// The Frechet distance of normal distributions.
#include "tasks/judging/frechet.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "dtn/core/check.h"

namespace dtn::test {
namespace {

// Distances have the error of square roots of eigenvalues near 0, relative to the traces.
const double kTolerance = 10 * std::sqrt(std::numeric_limits<double>::epsilon());

FeatureMoments diagonal(const std::vector<double>& mean, const std::vector<double>& variances) {
  FeatureMoments m{100, mean, std::vector<double>(mean.size() * mean.size())};
  for (std::size_t i = 0; i < mean.size(); ++i) m.covariance[i * mean.size() + i] = variances[i];
  return m;
}

// Normal rows, mixed so that channels are correlated.
Tensor random_rows(std::int64_t n, std::int64_t width, unsigned seed, float shift = 0) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Tensor rows = Tensor::empty({n, width}, DType::kFloat32);
  for (std::int64_t i = 0; i < n; ++i) {
    float* row = rows.data<float>() + i * width;
    for (std::int64_t c = 0; c < width; ++c) {
      row[c] = shift + normal(generator) + (c > 0 ? 0.5f * row[c - 1] : 0.0f);
    }
  }
  return rows;
}

Tensor reversed(const Tensor& rows) {
  Tensor out = Tensor::empty_like(rows);
  const std::int64_t n = rows.dim(0);
  for (std::int64_t i = 0; i < n; ++i) {
    out.slice(i, i + 1).copy_from(rows.slice(n - 1 - i, n - i));
  }
  return out;
}

TEST(FrechetDistance, OfIndependentChannels) {
  // The distance of two diagonal covariances is the sum of (mean difference)^2 + (s1 - s2)^2.
  const auto a = diagonal({1, 2, 3}, {4, 9, 0}), b = diagonal({1, 0, 3.5}, {1, 16, 0.25});
  EXPECT_NEAR(frechet_distance(a, b), (0 + 1) + (4 + 1) + (0.25 + 0.25), 1e-12);
  EXPECT_NEAR(frechet_distance(b, a), frechet_distance(a, b), kTolerance);
}

TEST(FrechetDistance, OfCorrelatedChannels) {
  // C1 = [[2, 1], [1, 2]] and C2 = 4 C1 commute: (C1 C2)^(1/2) = 2 C1.
  FeatureMoments a{100, {0, 0}, {2, 1, 1, 2}}, b{100, {3, 4}, {8, 4, 4, 8}};
  EXPECT_NEAR(frechet_distance(a, b), 25 + 4 + 16 - 2 * 8, 1e-12);
  // The eigenvalues of C1 C3 with C3 = [[1, -0.5], [-0.5, 3]] have the sum 7 and the product
  // 3 x 2.75: tr((C1 C3)^(1/2))^2 = 7 + 2 sqrt(8.25).
  b = {100, {0, 0}, {1, -0.5, -0.5, 3}};
  const double root = std::sqrt(2 * 1 - 0.5 + (-0.5 + 2 * 3) + 2 * std::sqrt(3 * 2.75));
  EXPECT_NEAR(frechet_distance(a, b), 4 + 4 - 2 * root, 1e-12);
}

TEST(FrechetDistance, OfEqualSetsIsZero) {
  for (const std::int64_t n : {3, 7, 50}) {  // 3 and 7 rows: a covariance without full rank
    const FeatureMoments m = moments_of(random_rows(n, 7, 1));
    const double scale = 7 * 2.0;
    EXPECT_GE(frechet_distance(m, m), 0);
    EXPECT_NEAR(frechet_distance(m, m), 0, scale * kTolerance);
  }
  const auto constant = diagonal({5, 5}, {0, 0});
  EXPECT_EQ(frechet_distance(constant, constant), 0);
}

TEST(FrechetDistance, DoesNotDependOnTheOrderOfRows) {
  const Tensor rows = random_rows(40, 6, 2);
  const FeatureMoments other = moments_of(random_rows(60, 6, 3, 0.5f));
  const double distance = frechet_distance(moments_of(rows), other);
  EXPECT_GT(distance, 0.1);
  EXPECT_NEAR(frechet_distance(moments_of(reversed(rows)), other), distance, 1e-9);
}

TEST(FrechetDistance, OfCovariancesWithoutFullRank) {
  // Rows on a line against rows on another line, at a right angle: the root of C1 C2 is 0.
  const Tensor a = Tensor::from(std::vector<float>{-1, 0, 0, 0, 1, 0}, {3, 2});
  const Tensor b = Tensor::from(std::vector<float>{0, -2, 0, 0, 0, 2}, {3, 2});
  EXPECT_NEAR(frechet_distance(moments_of(a), moments_of(b)), 1 + 4, 1e-12);
}

TEST(FeatureMoments, AreThoseOfTheRows) {
  const Tensor rows = Tensor::from(std::vector<float>{1, 10, 2, 30, 6, 20}, {3, 2});
  const FeatureMoments m = moments_of(rows);
  EXPECT_EQ(m.count, 3);
  EXPECT_DOUBLE_EQ(m.mean[0], 3);
  EXPECT_DOUBLE_EQ(m.mean[1], 20);
  const double expected[] = {7, 5, 5, 100};  // sums of products, by n - 1 = 2
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(m.covariance[i], expected[i], 1e-12);
}

TEST(FeatureMoments, NeedTwoFiniteRows) {
  EXPECT_THROW(moments_of(Tensor::zeros({1, 4}, DType::kFloat32)), DataError);
  Tensor rows = Tensor::zeros({3, 4}, DType::kFloat32);
  rows.data<float>()[5] = std::nanf("");
  EXPECT_THROW(moments_of(rows), DataError);
}

}  // namespace
}  // namespace dtn::test
