// The statistics of an analysis, against cases computed by hand.
#include "apps/analyze/statistics.h"

#include <cmath>

#include "apps/analyze/moments.h"
#include "apps/analyze/subject_json.h"
#include "tensors.h"

namespace dtn {
namespace {

Tensor matrix(std::int64_t rows, const std::vector<double>& values) {
  return Tensor::from(values, {rows, static_cast<std::int64_t>(values.size()) / rows});
}

double median_of(const std::vector<double>& values) {
  MedianInTwoPasses median;
  for (const double v : values) median.add(v);
  median.begin_second_pass();
  for (const double v : values) median.add(v);
  return median.median();
}

TEST(RunningMean, ComputesPopulationDeviation) {
  RunningMean mean;
  for (const double v : {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0}) mean.add(v);
  EXPECT_DOUBLE_EQ(mean.mean(), 5);
  EXPECT_DOUBLE_EQ(mean.std(), 2);
}

TEST(Median, OddEvenEqualAndExtremeValues) {
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({3, 1, 2, 1000}), 2.5);
  EXPECT_EQ(median_of({1e-20, 1e20}), (1e-20f + static_cast<double>(1e20f)) / 2);
  EXPECT_EQ(median_of({7, 7, 7, 7}), 7);
  EXPECT_EQ(median_of({1, 1.0000001, 1.0000002, 5}),
            (static_cast<double>(1.0000001f) + static_cast<double>(1.0000002f)) / 2);
  EXPECT_EQ(median_of({0, 0, 0, 1}), 0);
  EXPECT_TRUE(std::isinf(median_of({1, INFINITY, INFINITY})));
  EXPECT_TRUE(std::isnan(median_of({1, NAN, 2})));
  EXPECT_TRUE(std::isnan(median_of({})));
}

TEST(Median, MatchesSortedValues) {
  for (const std::size_t count : {999u, 1000u}) {
    std::vector<double> values;
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      values.push_back(std::exp((state >> 8) / 1e6));
    }
    const double found = median_of(values);
    std::ranges::sort(values);
    const double wanted = (static_cast<double>(static_cast<float>(values[(count - 1) / 2])) +
                           static_cast<double>(static_cast<float>(values[count / 2]))) /
                          2;
    EXPECT_EQ(found, wanted);
  }
}

TEST(UniformDistance, MatchesKnownGrids) {
  EXPECT_NEAR(uniform_distance({7, 7}), 3.609, 5e-4);
  EXPECT_NEAR(uniform_distance({14, 14}), 7.281, 5e-4);
  EXPECT_NEAR(uniform_distance({28, 28}), 14.590, 5e-4);
  EXPECT_DOUBLE_EQ(uniform_distance({1, 2}), 0.5);
  EXPECT_DOUBLE_EQ(uniform_distance({1, 1}), 0);
}

// Four points: variance 4 along (3, 4) / 5, variance 1 across it.
TEST(Covariance, FindsKnownPrincipalAxes) {
  std::vector<double> values;
  for (const double along : {-2.0, 2.0}) {
    for (const double across : {-1.0, 1.0}) {
      for (const double v : {100 + 0.6 * along - 0.8 * across, 0.8 * along + 0.6 * across, 7.0}) {
        values.push_back(v);
      }
    }
  }
  Covariance covariance;
  const Tensor rows = matrix(4, values);
  covariance.add(rows.slice(0, 3));
  covariance.add(rows.slice(3, 4));
  const PrincipalAxes axes = covariance.principal(true);
  EXPECT_NEAR(axes.explained[0], 0.8, 1e-12);
  EXPECT_NEAR(axes.explained[1], 0.2, 1e-12);
  EXPECT_NEAR(axes.spread, std::sqrt(5), 1e-12);
  const double wanted[2][3] = {{0.6, 0.8, 0}, {0.8, -0.6, 0}};  // the largest entry is positive
  for (std::size_t k = 0; k < 2; ++k) {
    for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(axes.axes[k][c], wanted[k][c], 1e-9);
  }
  EXPECT_NEAR(axes.mean[0], 100, 1e-12);
  EXPECT_NEAR(axes.mean[2], 7, 1e-12);
}

TEST(Covariance, NonFiniteRowsGiveNaN) {
  Covariance covariance;
  covariance.add(matrix(2, {1, NAN, 2, 3}));
  const PrincipalAxes axes = covariance.principal(false);
  EXPECT_TRUE(std::isnan(axes.explained[0]));
  EXPECT_TRUE(std::isnan(axes.spread));
}

double cka(const Tensor& x, const Tensor& y) {
  Columns of_x, of_y;
  ColumnProduct xx, xy, yy;
  const Tensor a = of_x.shifted(x), b = of_y.shifted(y);
  xx.add_square(a);
  xy.add(a, b);
  yy.add_square(b);
  return linear_cka(xy.centred(of_x, of_y), std::sqrt(squared_norm(xx.centred(of_x, of_x))),
                    std::sqrt(squared_norm(yy.centred(of_y, of_y))));
}

// The matrix has more columns than one block of the product.
TEST(ColumnProduct, SymmetricProductMatchesGeneralProduct) {
  std::vector<double> values;
  for (int i = 0; i < 3 * 300; ++i) values.push_back(std::sin(i * 1.7) + (i % 5));
  const Tensor x = matrix(3, values);
  Columns columns;
  const Tensor shifted = columns.shifted(x);
  ColumnProduct square, product;
  for (int batch = 0; batch < 2; ++batch) {
    square.add_square(shifted);
    product.add(shifted, shifted);
  }
  const Tensor a = square.centred(columns, columns), b = product.centred(columns, columns);
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    ASSERT_NEAR(a.data<double>()[i], b.data<double>()[i], 1e-10) << i;
  }
}

TEST(Cka, InvariantToRotationScaleAndShift) {
  const Tensor x = matrix(4, {1, 0, 2, 5, -1, 3, 0, 1});
  EXPECT_NEAR(cka(x, x), 1, 1e-12);
  std::vector<double> turned;  // rotated by 90 degrees, scaled by 3, shifted
  for (std::int64_t i = 0; i < 4; ++i) {
    turned.push_back(-3 * x.data<double>()[2 * i + 1] + 100);
    turned.push_back(3 * x.data<double>()[2 * i]);
  }
  EXPECT_NEAR(cka(x, matrix(4, turned)), 1, 1e-12);
  EXPECT_NEAR(cka(matrix(4, {1, 1, -1, -1}), matrix(4, {1, -1, 1, -1})), 0, 1e-15);
  EXPECT_NEAR(cka(matrix(3, {1, -1, 0}), matrix(3, {1, 0, -1})), 0.25, 1e-12);
}

TEST(PositionFigures, PointAndUniformWeights) {
  const TokenGrid grid{3, 3};
  EXPECT_EQ(center_token(grid), 4);
  EXPECT_EQ(center_token({14, 14}), 91);
  const std::vector<double> point{0, 0, 1, 0, 0, 0, 0, 0, 0};
  const PositionFigures p = figures_of(point.data(), grid, 4);
  EXPECT_EQ(p.offset_x, 1);
  EXPECT_EQ(p.offset_y, -1);
  EXPECT_EQ(p.radius, 0);
  EXPECT_EQ(p.tokens, 1);
  const std::vector<double> equal(9, 1.0 / 9);
  const PositionFigures e = figures_of(equal.data(), grid, 4);
  EXPECT_NEAR(e.offset_x, 0, 1e-15);
  EXPECT_NEAR(e.radius, std::sqrt(4.0 / 3), 1e-12);  // each coordinate has variance 2/3
  EXPECT_NEAR(e.tokens, 9, 1e-12);
  const PositionFigures corner = figures_of(equal.data(), grid, 0);
  EXPECT_NEAR(corner.offset_x, 1, 1e-12);
  EXPECT_NEAR(corner.radius, std::sqrt(4.0 / 3), 1e-12);
}

// Two patches and one head of one channel; the scores are q k.
AttentionView two_patches(std::vector<float> queries, std::vector<float> keys, TokenGrid grid) {
  const auto n = static_cast<std::int64_t>(queries.size());
  return {.queries = Tensor::from(queries, {1, n, 1}),
          .keys = Tensor::from(keys, {1, n, 1}),
          .bias = {},
          .how = {.heads = 1,
                  .q = {0, 1, 1},
                  .k = {0, 1, 1},
                  .v = {0, 1, 1},
                  .scale = 1,
                  .groups = nullptr},
          .query_grid = grid,
          .key_grid = grid};
}

TEST(AttentionStatistics, TwoPatchesAndClassToken) {
  const float three = std::log(3.0f);
  // The first patch puts 3/5 on the class token and 1/5 on each patch; the second puts 1/3 on all.
  const AttentionView view = two_patches({0, three, 0}, {1, 0, 0}, {1, 2, 1});
  Rollout rollout;
  AttentionStatistics statistics;
  statistics.add(view, 0, true, rollout);
  // Among the patches the weights are equal: half the weight lies one patch away.
  EXPECT_NEAR(statistics.distance[0].mean(), 0.5, 1e-7);
  EXPECT_NEAR(statistics.to_class[0].mean(), (3.0 / 5 + 1.0 / 3) / 2, 1e-7);
  const double first = -(0.6 * std::log(0.6) + 0.4 * std::log(0.2));
  EXPECT_NEAR(statistics.entropy[0].mean(), (first + std::log(3.0)) / 2, 1e-7);
  EXPECT_NEAR(statistics.uniform_entropy(), std::log(3.0), 1e-15);
  // The class token's row of the attention is 1/3 each; the rollout averages it with the identity.
  const auto shares = rollout.shares(2, true);
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_NEAR(shares[0][0], 0.5, 1e-12);
}

// A key of a reduced map lies at the center of its queries; distances are in query patches.
TEST(AttentionStatistics, OneKeyForFourPatches) {
  AttentionView view = two_patches({1, 2, 3, 4}, {0, 0, 0, 0}, {2, 2});
  view.keys = Tensor::from(std::vector<float>{5}, {1, 1, 1});
  view.key_grid = {1, 1};
  view.key_start = 0.5;
  view.key_step = 2;
  Rollout rollout;
  AttentionStatistics statistics;
  statistics.add(view, 0, true, rollout);
  EXPECT_NEAR(statistics.distance[0].mean(), std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(statistics.entropy[0].mean(), 0, 1e-12);
  EXPECT_EQ(statistics.uniform_entropy(), 0);
  EXPECT_FALSE(statistics.has_class_token());
  EXPECT_TRUE(rollout.shares(4, false).empty());
}

// Three windows of two patches on a 2 x 3 map. Attention is uniform within a window and a region.
TEST(AttentionStatistics, WindowsOnWholeMap) {
  const std::vector<std::int64_t> tokens{0, 4, 2, 5, 1, 3};
  const std::vector<std::int64_t> regions{0, 0, 0, 1, 0, 0};
  for (const bool parted : {false, true}) {
    AttentionView view = two_patches({0, 0, 0, 0, 0, 0}, {1, 2, 3, 4, 5, 6}, {2, 3});
    view.how.groups = ops::TokenGroups::make(
        tokens, parted ? std::span<const std::int64_t>(regions) : std::span<const std::int64_t>(),
        3, kCpu);
    Rollout rollout;
    AttentionStatistics statistics;
    statistics.add(view, 0, false, rollout);
    // Patches 0 and 4, and 1 and 3, are sqrt(2) apart; 2 and 5 are 1 apart. Each patch puts half of
    // its weight on the other patch of its window.
    const double apart = 2 * std::sqrt(2) + (parted ? 0 : 1);
    EXPECT_NEAR(statistics.distance[0].mean(), 2 * apart / 2 / 6, 1e-12);
    // With regions, 2 and 5 see only themselves.
    EXPECT_NEAR(statistics.uniform_entropy(), std::log(2) * (parted ? 4 : 6) / 6, 1e-12);
    EXPECT_NEAR(statistics.entropy[0].mean(), statistics.uniform_entropy(), 1e-12);
  }
}

TEST(Rollout, MultipliesLayersAndAddsLateClassToken) {
  Rollout rollout;
  rollout.add(0, {0.5, 0.5, 1, 0}, 2);  // M = [[3/4, 1/4], [1/2, 1/2]]
  // Class token, then both patches: M = [[1/2, 1/2, 0], [0, 1, 0], [0, 0, 1]].
  rollout.add(0, {0, 1, 0, 0, 1, 0, 0, 0, 1}, 3);
  const auto shares = rollout.shares(2, true);
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_NEAR(shares[0][0], 0.75, 1e-15);
  EXPECT_NEAR(shares[0][1], 0.25, 1e-15);
  // Mean of the patches' rows, [3/4, 1/4] and [1/2, 1/2].
  const auto means = rollout.shares(2, false);
  EXPECT_NEAR(means[0][0], 0.625, 1e-15);
  rollout.give_up();
  EXPECT_TRUE(rollout.shares(2, true).empty());
}

}  // namespace
}  // namespace dtn
