// Copies and means of rows, and kernels on a few values.
#include <gtest/gtest.h>

#include <limits>

#include "dtn/core/check.h"
#include "kernels/pointwise/pointwise.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(CopyRows)
DTN_RUN_ON_EACH_ISA(MeanRows)
DTN_RUN_ON_EACH_ISA(SpreadMean)
DTN_RUN_ON_EACH_ISA(Mean)
DTN_RUN_ON_EACH_ISA(Sigmoid)

namespace dtn::test {
namespace {

template <class T>
class PointwiseRows : public ::testing::Test {};
using Types = ::testing::Types<float, bfloat16, double>;
TYPED_TEST_SUITE(PointwiseRows, Types);

TYPED_TEST(PointwiseRows, CopyMovesRowsAndKeepsGaps) {
  using T = TypeParam;
  struct Case {
    std::int64_t rows, columns, x_stride, y_stride;
  };
  for (Isa isa : isas()) {
    for (Case c : {Case{1, 1, 1, 1}, Case{7, 16, 16, 16}, Case{6, 13, 0, 197 * 13},
                   Case{33, 13, 17, 14}, Case{3, 40001, 40001, 40010}, Case{5, 3, 9, 3}}) {
      SCOPED_TRACE(cat(name_of(isa), " ", c.rows, " x ", c.columns));
      std::vector<T> x = normal_values<T>((c.rows - 1) * c.x_stride + c.columns, 1);
      std::vector<T> y = normal_values<T>((c.rows - 1) * c.y_stride + c.columns + 1, 2),
                     expected = y;
      for (std::int64_t r = 0; r < c.rows; ++r) {
        for (std::int64_t i = 0; i < c.columns; ++i) {
          expected[static_cast<std::size_t>(r * c.y_stride + i)] =
              x[static_cast<std::size_t>(r * c.x_stride + i)];
        }
      }
      run_on(isa, CopyRows{DTypeOf<T>::value, c.rows, c.columns, x.data(), c.x_stride, y.data(),
                           c.y_stride});
      EXPECT_TRUE(same_bits(y, expected));
    }
  }
}

TEST(PointwiseRows, CopyAcceptsAnyElementType) {
  std::vector<std::int64_t> x = {1, -2, 1LL << 40, 4}, y(4);
  std::vector<std::uint8_t> a = {1, 2, 3, 4, 5, 6}, b(4, 9);
  for (Isa isa : isas()) {
    run_on(isa, CopyRows{DType::kInt64, 2, 2, x.data(), 2, y.data(), 2});
    EXPECT_EQ(y, x);
    run_on(isa, CopyRows{DType::kUInt8, 2, 1, a.data() + 1, 3, b.data(), 2});
    EXPECT_EQ(b, (std::vector<std::uint8_t>{2, 9, 5, 9}));
  }
}

TYPED_TEST(PointwiseRows, MeanMatchesFloat64WithSameBitsForAnyThreads) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  struct Case {
    std::int64_t batch, rows, columns;
    double mean;
  };
  for (Case c : {Case{1, 1, 1, 0}, Case{3, 196, 24, 0}, Case{2, 197, 433, 1000},
                 Case{1, 31, 4099, 1000}, Case{4, 7, 1, 0}}) {
    const std::vector<T> x = normal_values<T>(c.batch * c.rows * c.columns, 3, c.mean);
    std::vector<long double> expected(static_cast<std::size_t>(c.batch * c.columns));
    std::vector<double> magnitude(expected.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto columns = static_cast<std::size_t>(c.columns), rows = static_cast<std::size_t>(c.rows);
      std::size_t to = i / (columns * rows) * columns + i % columns;
      expected[to] += static_cast<long double>(as_double(x[i])) / c.rows;
      magnitude[to] += std::abs(as_double(x[i])) / static_cast<double>(c.rows);
    }
    for (Isa isa : isas()) {
      SCOPED_TRACE(cat(name_of(isa), " ", c.batch, " x ", c.rows, " x ", c.columns));
      std::vector<T> first;
      for (int threads : kThreadCounts) {
        Threads scope(threads);
        std::vector<T> y(expected.size());
        run_on(isa, MeanRows{DTypeOf<T>::value, c.batch, c.rows, c.columns, x.data(), y.data()});
        if (first.empty()) first = y;
        EXPECT_TRUE(same_bits(y, first)) << threads << " threads";
      }
      for (std::size_t i = 0; i < first.size(); ++i) {
        double sums = epsilon_of<A>() * std::sqrt(static_cast<double>(c.rows)) * magnitude[i];
        double last = epsilon_of<T>() / 2 * std::abs(static_cast<double>(expected[i])) * 1.01;
        ASSERT_NEAR(as_double(first[i]), static_cast<double>(expected[i]), sums + last) << i;
      }
    }
  }
}

TYPED_TEST(PointwiseRows, SpreadMeanDividesByNumberOfRows) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  struct Case {
    std::int64_t batch, rows, columns;
  };
  for (Isa isa : isas()) {
    for (Case c : {Case{1, 1, 1}, Case{3, 197, 433}, Case{2, 3, 40001}, Case{5, 196, 24}}) {
      SCOPED_TRACE(cat(name_of(isa), " ", c.batch, " x ", c.rows, " x ", c.columns));
      std::vector<T> dy = normal_values<T>(c.batch * c.columns, 4);
      std::vector<T> dx(static_cast<std::size_t>(c.batch * c.rows * c.columns));
      run_on(isa, SpreadMean{DTypeOf<T>::value, c.batch, c.rows, c.columns, dy.data(), dx.data()});
      std::int64_t wrong = 0;
      for (std::size_t i = 0; i < dx.size(); ++i) {
        auto columns = static_cast<std::size_t>(c.columns), rows = static_cast<std::size_t>(c.rows);
        A mean = static_cast<A>(dy[i / (columns * rows) * columns + i % columns]);
        wrong += as_double(dx[i]) != as_double(static_cast<T>(mean / static_cast<A>(c.rows)));
      }
      EXPECT_EQ(wrong, 0);
    }
  }
}

TEST(PointwiseRows, MeanOfValuesUsesFloat64) {
  for (std::int64_t n : {0, 1, 3, 32769, 1000003}) {
    const std::vector<float> x = normal_values<float>(n, 5, 1000);
    const std::vector<double> x64(x.begin(), x.end());
    const double scale = 1 / static_cast<double>(n + 1);
    long double sum = 0;
    for (double v : x64) sum += v;
    const double expected = static_cast<double>(sum * static_cast<long double>(scale));
    for (Isa isa : isas()) {
      for (int threads : kThreadCounts) {
        SCOPED_TRACE(cat(name_of(isa), ", n ", n, ", ", threads, " threads"));
        Threads scope(threads);
        float y = std::numeric_limits<float>::quiet_NaN();
        double y64 = 3;
        run_on(isa, Mean{DType::kFloat32, n, x.data(), &y, scale});
        EXPECT_EQ(y, static_cast<float>(expected));
        run_on(isa, Mean{DType::kFloat64, n, x64.data(), &y64, scale, true});
        EXPECT_NEAR(y64, 3 + expected,
                    1e-14 * std::sqrt(static_cast<double>(n + 1)) * (3 + expected));
      }
    }
  }
}

TEST(PointwiseRows, Sigmoid) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x = {0, 1, -1, 8.5, -40, 800, -800, inf, -inf, nan};
  const std::vector<float> x32(x.begin(), x.end());
  const auto n = static_cast<std::int64_t>(x.size());
  for (Isa isa : isas()) {
    SCOPED_TRACE(name_of(isa));
    std::vector<double> y(x.size());
    std::vector<float> y32(x.size());
    run_on(isa, Sigmoid{DType::kFloat64, n, x.data(), y.data()});
    run_on(isa, Sigmoid{DType::kFloat32, n, x32.data(), y32.data()});
    for (std::size_t i = 0; i + 1 < x.size(); ++i) {
      double expected = 1 / (1 + std::exp(-x[i]));
      EXPECT_NEAR(y[i], expected, 4 * 0x1p-53) << x[i];
      EXPECT_NEAR(y32[i], expected, 4 * 0x1p-24) << x[i];
    }
    EXPECT_EQ(y[6], 0);
    EXPECT_EQ(y32[7], 1);
    EXPECT_TRUE(std::isnan(y.back()) && std::isnan(y32.back()));
  }
}

TEST(PointwiseRows, RejectsUnsupportedBFloat16) {
  bfloat16 x{};
  for (Isa isa : isas()) {
    EXPECT_THROW(run_on(isa, Mean{DType::kBFloat16, 1, &x, &x, 1}), Error);
    EXPECT_THROW(run_on(isa, Sigmoid{DType::kBFloat16, 1, &x, &x}), Error);
  }
}

TEST(PointwiseRows, EmptyInputIsNoOp) {
  for (Isa isa : isas()) {
    run_on(isa, CopyRows{DType::kFloat32, 0, 4, nullptr, 4, nullptr, 4});
    run_on(isa, CopyRows{DType::kFloat32, 4, 0, nullptr, 4, nullptr, 4});
    run_on(isa, MeanRows{DType::kFloat32, 0, 4, 4, nullptr, nullptr});
    run_on(isa, SpreadMean{DType::kFloat32, 2, 0, 4, nullptr, nullptr});
    run_on(isa, Sigmoid{DType::kFloat32, 0, nullptr, nullptr});
  }
}

}  // namespace
}  // namespace dtn::test
