// Resampled positions against DINO's rule, written as a plain float64 loop.
#include "dtn/ops/positions.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "dtn/ops/tokens.h"
#include "tensors.h"

namespace dtn {
namespace {

using ops::GridSize;
using std::int64_t;
using test::Doubles;

double weight(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

// The input position that output i reads, on an axis of `from` inputs and `to` outputs.
double source(int64_t i, int64_t from, int64_t to) {
  return (static_cast<double>(i) + 0.5) * static_cast<double>(from) /
             (static_cast<double>(to) + 0.1) -
         0.5;
}

Doubles by_rule(const Tensor& positions, GridSize from, GridSize to) {
  const Doubles in = test::doubles(positions);
  const int64_t channels = positions.dim(2), prefix = positions.dim(1) - from.tokens();
  Doubles out(in.begin(), in.begin() + prefix * channels);
  for (int64_t i = 0; i < to.tokens(); ++i) {
    const double y = source(i / to.width, from.height, to.height);
    const double x = source(i % to.width, from.width, to.width);
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t row = static_cast<int64_t>(std::floor(y)) - 1; row <= std::floor(y) + 2; ++row) {
        for (int64_t col = static_cast<int64_t>(std::floor(x)) - 1; col <= std::floor(x) + 2;
             ++col) {
          const int64_t r = std::clamp<int64_t>(row, 0, from.height - 1);
          const int64_t k = std::clamp<int64_t>(col, 0, from.width - 1);
          const int64_t at = (prefix + r * from.width + k) * channels + c;
          sum += weight(y - static_cast<double>(row)) * weight(x - static_cast<double>(col)) *
                 in[static_cast<std::size_t>(at)];
        }
      }
      out.push_back(sum);
    }
  }
  return out;
}

struct Case {
  GridSize from, to;
  int64_t prefix;
};
constexpr Case kCases[] = {{{14, 14}, {6, 6}, 1}, {{7, 7}, {4, 4}, 0}, {{3, 5}, {6, 2}, 0},
                           {{4, 4}, {11, 13}, 2}, {{1, 9}, {1, 4}, 0}, {{5, 5}, {1, 1}, 3}};

Tensor some_positions(const Case& c, DType dtype) {
  return test::as(test::random_tensor({1, c.prefix + c.from.tokens(), 5}, 3), dtype);
}

// The first rows of the public rule: 14 -> 6.
TEST(ResamplePositions, MatrixOfPublicSizes) {
  const ops::PositionResampling r({14, 14}, {6, 6}, DType::kFloat64, kCpu);
  ASSERT_EQ(r.down().shape(), Shape({6, 14}));
  const Doubles matrix = test::doubles(r.down());
  const Doubles row = {0.3356, 0.7752, -0.1108, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(matrix[i], row[i], 5e-5) << i;
  for (std::size_t i = 0; i < 6; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < 14; ++j) sum += matrix[i * 14 + j];
    EXPECT_NEAR(sum, 1, 1e-14);
  }
  EXPECT_TRUE(test::same_bits(r.down(), r.along()));
}

TEST(ResamplePositions, FollowDinosRule) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(cat(c.from.height, " x ", c.from.width, " to ", c.to.height, " x ", c.to.width));
    for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
      Context ctx;
      const Tensor positions = some_positions(c, dtype);
      const Variable y = ops::resample_positions(ctx, Variable(positions), c.from, c.to);
      ASSERT_EQ(y.shape(), Shape({1, c.prefix + c.to.tokens(), 5}));
      ASSERT_EQ(y.dtype(), dtype);
      // 16 products of weights and values below 4, in two rounded steps.
      const double tolerance = 16 * 4 * 4 * test::unit_roundoff(dtype);
      const Doubles want = by_rule(positions, c.from, c.to);
      EXPECT_LE(test::max_abs_difference(test::doubles(y.value()), want), tolerance);
    }
  }
}

// torch.nn.functional.interpolate(mode="bilinear", align_corners=False) of 0, 1, 2, ...
TEST(ResamplePositions, MatrixOfBilinearFilter) {
  const auto rows = [](int64_t from, int64_t to) {
    const ops::PositionResampling r({from, 1}, {to, 1}, DType::kFloat64, kCpu,
                                    ops::PositionFilter::kBilinear);
    const Doubles matrix = test::doubles(r.down());
    Doubles out(static_cast<std::size_t>(to), 0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (int64_t j = 0; j < from; ++j) {
        out[i] += static_cast<double>(j) *
                  matrix[i * static_cast<std::size_t>(from) + static_cast<std::size_t>(j)];
      }
    }
    return out;
  };
  EXPECT_EQ(rows(2, 4), (Doubles{0, 0.25, 0.75, 1}));
  EXPECT_EQ(rows(4, 2), (Doubles{0.5, 2.5}));
  EXPECT_EQ(rows(3, 1), (Doubles{1}));
  EXPECT_EQ(rows(1, 3), (Doubles{0, 0, 0}));
  EXPECT_EQ(rows(5, 5), (Doubles{0, 1, 2, 3, 4}));
}

TEST(ResamplePositions, KeepPrefixAndOwnGrid) {
  const Case c{{4, 6}, {3, 3}, 2};
  const Variable positions(some_positions(c, DType::kFloat32));
  Context ctx;
  const Variable same = ops::resample_positions(ctx, positions, c.from, c.from);
  EXPECT_EQ(same.value().raw(), positions.value().raw());
  const Doubles y = test::doubles(ops::resample_positions(ctx, positions, c.from, c.to).value());
  const Doubles in = test::doubles(positions.value());
  EXPECT_EQ(Doubles(y.begin(), y.begin() + 10), Doubles(in.begin(), in.begin() + 10));
}

// The gradient is the transposed product: <dy, R p> = <R^T dy, p>, in bfloat16 activations too.
TEST(ResamplePositions, AddTransposedProductToGradient) {
  const Case c{{5, 4}, {3, 7}, 1};
  for (DType compute : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
    const DType master = accumulator_of(compute);
    const Variable positions(some_positions(c, master), true);
    Tensor memory = Tensor::full(positions.shape(), master, 0.5);
    positions.sink()->bind(memory);
    const Tensor tokens =
        test::as(test::random_tensor({1, c.prefix + c.to.tokens(), 5}, 4), compute);
    const Tensor dy = test::as(test::random_tensor(tokens.shape(), 5), compute);
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable moved = ops::resample_positions(ctx, positions, c.from, c.to);
    ASSERT_EQ(moved.dtype(), master);
    tape.backward(ops::add_positions(ctx, Variable(tokens), moved), dy);
    const Doubles p = test::doubles(positions.value()), g = test::doubles(memory);
    const Doubles rp = by_rule(positions.value(), c.from, c.to), seed = test::doubles(dy);
    double left = 0, right = 0, size = 0;
    for (std::size_t i = 0; i < rp.size(); ++i) {
      left += seed[i] * rp[i];
      size += std::abs(seed[i] * rp[i]);
    }
    for (std::size_t i = 0; i < p.size(); ++i) right += (g[i] - 0.5) * p[i];
    EXPECT_NEAR(left, right, 64 * test::unit_roundoff(master) * size) << name_of(compute);
    EXPECT_GT(std::abs(left), 0.1);
  }
}

TEST(ResamplePositions, RejectOtherTables) {
  Context ctx;
  const Variable positions(test::random_tensor({1, 8, 5}, 1));
  EXPECT_THROW(ops::resample_positions(ctx, positions, {3, 3}, {2, 2}), Error);
  EXPECT_THROW(ops::resample_positions(ctx, positions, {2, 4}, {0, 2}), Error);
}

}  // namespace
}  // namespace dtn
