#include "kernels/pointwise/pointwise.h"

#include <gtest/gtest.h>

#include <limits>

#include "dtn/core/check.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(Cast)
DTN_RUN_ON_EACH_ISA(Add)
DTN_RUN_ON_EACH_ISA(ScaleRows)
DTN_RUN_ON_EACH_ISA(ElementDropout)
DTN_RUN_ON_EACH_ISA(DropPathScales)
DTN_RUN_ON_EACH_ISA(Patchify)
DTN_RUN_ON_EACH_ISA(SumRows)
DTN_RUN_ON_EACH_ISA(AddToRows)

namespace dtn::test {
namespace {

using Types = ::testing::Types<float, bfloat16, double>;

template <class T>
class Pointwise : public ::testing::Test {};
TYPED_TEST_SUITE(Pointwise, Types);

template <class From, class To>
void check_cast(Isa isa, std::int64_t n) {
  SCOPED_TRACE(cat(name_of(isa), " ", name_of(DTypeOf<From>::value), " to ",
                   name_of(DTypeOf<To>::value), ", n ", n));
  std::vector<From> x = normal_values<From>(n, 1);
  std::vector<To> y(x.size() + 1), guard(1);
  std::memset(&guard[0], 0x5a, sizeof(To));
  y.back() = guard[0];
  run_on(isa, Cast{DTypeOf<From>::value, DTypeOf<To>::value, n, x.data(), y.data()});
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    To expected = static_cast<To>(static_cast<AccumulatorOf<To>>(as_double(x[i])));
    wrong += std::memcmp(&expected, &y[i], sizeof(To)) != 0;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(std::memcmp(&y.back(), &guard[0], sizeof(To)), 0) << "wrote past the end";
}

TYPED_TEST(Pointwise, CastRoundsToNearestEven) {
  for (Isa isa : isas()) {
    for (std::int64_t n : kOddCounts) {
      check_cast<TypeParam, float>(isa, n);
      check_cast<TypeParam, bfloat16>(isa, n);
      check_cast<TypeParam, double>(isa, n);
    }
  }
}

TEST(Pointwise, CastKeepsSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(19, 1.0f), back(19);
  x[0] = inf, x[3] = -inf, x[5] = nan, x[7] = 3.4e38f, x[9] = -0.0f, x[17] = nan, x[18] = -inf;
  std::vector<bfloat16> h(19);
  for (Isa isa : isas()) {
    SCOPED_TRACE(name_of(isa));
    run_on(isa, Cast{DType::kFloat32, DType::kBFloat16, 19, x.data(), h.data()});
    run_on(isa, Cast{DType::kBFloat16, DType::kFloat32, 19, h.data(), back.data()});
    EXPECT_EQ(back[0], inf);
    EXPECT_EQ(back[3], -inf);
    EXPECT_TRUE(std::isnan(back[5]));
    EXPECT_EQ(back[7], inf);  // above the largest bfloat16
    EXPECT_TRUE(back[9] == 0 && std::signbit(back[9]));
    EXPECT_TRUE(std::isnan(back[17]));
    EXPECT_EQ(back[18], -inf);
  }
}

TEST(Pointwise, CastToSameTypeInPlace) {
  std::vector<float> x = normal_values<float>(1001, 2), copy = x;
  for (Isa isa : isas()) {
    run_on(isa, Cast{DType::kFloat32, DType::kFloat32, 1001, x.data(), x.data()});
    EXPECT_EQ(x, copy);
  }
}

TEST(Pointwise, RejectsUnsupportedTypes) {
  std::int64_t x = 0;
  for (Isa isa : isas()) {
    EXPECT_THROW(run_on(isa, Cast{DType::kInt64, DType::kFloat32, 1, &x, &x}), Error);
    EXPECT_THROW(run_on(isa, Add{DType::kUInt8, 1, &x, &x, &x}), Error);
  }
}

TYPED_TEST(Pointwise, AddIsCorrectlyRoundedAndRunsInPlace) {
  using T = TypeParam;
  constexpr DType dtype = DTypeOf<T>::value;
  for (Isa isa : isas()) {
    for (std::int64_t n : kOddCounts) {
      SCOPED_TRACE(cat(name_of(isa), " n ", n));
      std::vector<T> a = normal_values<T>(n, 3), b = normal_values<T>(n, 4), expected(a.size()),
                     y(a);
      for (std::size_t i = 0; i < a.size(); ++i) {
        using A = AccumulatorOf<T>;
        expected[i] = static_cast<T>(static_cast<A>(a[i]) + static_cast<A>(b[i]));
      }
      run_on(isa, Add{dtype, n, a.data(), b.data(), y.data()});
      EXPECT_TRUE(same_bits(y, expected));
      y = a;
      run_on(isa, Add{dtype, n, y.data(), b.data(), y.data()});
      EXPECT_TRUE(same_bits(y, expected)) << "y is a";
      y = b;
      run_on(isa, Add{dtype, n, a.data(), y.data(), y.data()});
      EXPECT_TRUE(same_bits(y, expected)) << "y is b";
    }
  }
}

// One rounding of the product (none with FMA), one of the sum and one of the stored value.
template <class T>
long double tolerance_of(long double product, long double sum) {
  long double accumulate = epsilon_of<AccumulatorOf<T>>() * (std::abs(product) + std::abs(sum)) / 2;
  return accumulate +
         (std::is_same_v<T, bfloat16> ? 1.01 * epsilon_of<T>() / 2 * std::abs(sum) : 0);
}

TYPED_TEST(Pointwise, ScaleRowsMatchesFormula) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  struct Case {
    std::int64_t rows, per_scale;
  };
  for (Isa isa : isas()) {
    for (auto [rows, per_scale] :
         {Case{1, 1}, Case{17, 1}, Case{3, 7}, Case{5, 17}, Case{4, 84681}, Case{1, 100003}}) {
      SCOPED_TRACE(cat(name_of(isa), " ", rows, " x ", per_scale));
      std::int64_t n = rows * per_scale;
      std::vector<A> scale = normal_values<A>(rows, 5);
      scale[0] = 0;
      std::vector<T> x = normal_values<T>(n, 6), residual = normal_values<T>(n, 7), y(x.size());
      ScaleRows args{DTypeOf<T>::value, n,       per_scale, scale.data(), x.data(),
                     residual.data(),   y.data()};
      run_on(isa, args);
      std::int64_t wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        long double factor = scale[i / static_cast<std::size_t>(per_scale)];
        long double product = factor * as_double(x[i]), sum = product + as_double(residual[i]);
        wrong += !(std::abs(as_double(y[i]) - sum) <= tolerance_of<T>(product, sum));
      }
      EXPECT_EQ(wrong, 0);
      std::vector<T> expected = y;
      y = x;
      args.x = y.data();
      run_on(isa, args);
      EXPECT_TRUE(same_bits(y, expected)) << "y is x";
      y = residual;
      args.x = x.data();
      args.residual = y.data();
      run_on(isa, args);
      EXPECT_TRUE(same_bits(y, expected)) << "y is the residual";
      args.residual = nullptr;
      run_on(isa, args);
      wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        A s = scale[i / static_cast<std::size_t>(per_scale)];
        wrong += as_double(y[i]) != as_double(static_cast<T>(s * static_cast<A>(x[i])));
      }
      EXPECT_EQ(wrong, 0) << "without a residual";
    }
  }
}

TYPED_TEST(Pointwise, AddToRowsMatchesFormula) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  for (Isa isa : isas()) {
    for (auto [rows, columns] : {std::pair{1, 1}, {5, 1}, {7, 17}, {197, 433}, {3, 84673}}) {
      SCOPED_TRACE(cat(name_of(isa), " ", rows, " x ", columns));
      std::int64_t n = std::int64_t{rows} * columns;
      std::vector<T> x = normal_values<T>(n, 8), y(x.size()), expected(x.size());
      std::vector<A> addend = normal_values<A>(columns, 9);
      for (std::size_t i = 0; i < x.size(); ++i) {
        A sum = static_cast<A>(x[i]) + addend[i % static_cast<std::size_t>(columns)];
        expected[i] = static_cast<T>(sum);
      }
      AddToRows args{DTypeOf<T>::value, rows, columns, x.data(), addend.data(), y.data()};
      run_on(isa, args);
      EXPECT_TRUE(same_bits(y, expected));
      args.y = x.data();
      run_on(isa, args);
      EXPECT_TRUE(same_bits(x, expected)) << "y is x";
    }
  }
}

TYPED_TEST(Pointwise, SumRowsMatchesFloat64WithSameBitsForAnyThreads) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  for (auto [rows, columns] : {std::pair{1, 1},
                               {7, 15},
                               {16, 17},
                               {3136, 432},
                               {1031, 3},
                               {50001, 1},
                               {16, 84672},
                               {67, 4099}}) {
    std::vector<T> x = normal_values<T>(std::int64_t{rows} * columns, 10, 0.5);
    std::vector<A> start = normal_values<A>(columns, 11);
    std::vector<long double> expected(start.begin(), start.end()), magnitude(start.size(), 1);
    for (std::size_t i = 0; i < x.size(); ++i) {
      expected[i % static_cast<std::size_t>(columns)] += as_double(x[i]);
      magnitude[i % static_cast<std::size_t>(columns)] += std::abs(as_double(x[i]));
    }
    for (Isa isa : isas()) {
      SCOPED_TRACE(cat(name_of(isa), " ", rows, " x ", columns));
      std::vector<A> out = start;
      SumRows args{DTypeOf<T>::value, rows, columns, x.data(), out.data()};
      run_on(isa, args);
      for (std::size_t i = 0; i < out.size(); ++i) {
        long double tolerance = epsilon_of<A>() / 2 * std::sqrt(rows) * magnitude[i];
        ASSERT_NEAR(out[i], expected[i], tolerance) << i;
      }
      for (int threads : kThreadCounts) {
        Threads scope(threads);
        std::vector<A> again = start;
        args.out = again.data();
        run_on(isa, args);
        EXPECT_TRUE(same_bits(again, out)) << threads << " threads";
      }
    }
  }
}

TEST(Pointwise, SumRowsOfEmptyInputIsNoOp) {
  std::vector<float> out = {1, 2, 3};
  run(cpu_queue(), SumRows{DType::kFloat32, 0, 3, nullptr, out.data()});
  run(cpu_queue(), SumRows{DType::kFloat32, 3, 0, nullptr, out.data()});
  EXPECT_EQ(out, (std::vector<float>{1, 2, 3}));
}

TYPED_TEST(Pointwise, PatchifyMatchesIndexFormula) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  struct Case {
    std::int64_t batch, channels, height, width, patch;
  };
  for (Isa isa : isas()) {
    for (Case c : {Case{1, 1, 1, 1, 1}, Case{2, 3, 4, 6, 2}, Case{1, 3, 15, 10, 5},
                   Case{2, 3, 64, 32, 16}, Case{1, 2, 34, 17, 17}}) {
      SCOPED_TRACE(cat(name_of(isa), " patch ", c.patch));
      std::vector<A> images = normal_values<A>(c.batch * c.channels * c.height * c.width, 12);
      std::vector<T> patches(images.size());
      run_on(isa, Patchify{DTypeOf<T>::value, c.batch, c.channels, c.height, c.width, c.patch,
                           images.data(), patches.data()});
      std::int64_t k = 0, wrong = 0, p = c.patch;
      for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t gy = 0; gy < c.height / p; ++gy)
          for (std::int64_t gx = 0; gx < c.width / p; ++gx)
            for (std::int64_t ch = 0; ch < c.channels; ++ch)
              for (std::int64_t py = 0; py < p; ++py)
                for (std::int64_t px = 0; px < p; ++px, ++k) {
                  std::int64_t row = (b * c.channels + ch) * c.height + gy * p + py;
                  A value = images[static_cast<std::size_t>(row * c.width + gx * p + px)];
                  T expected = static_cast<T>(value);
                  wrong += as_double(patches[static_cast<std::size_t>(k)]) != as_double(expected);
                }
      EXPECT_EQ(wrong, 0);
    }
  }
}

TYPED_TEST(Pointwise, DropoutMaskIsPhilox) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  const PhiloxKey key{0x123456789abcdef0u, 77, 5};
  for (Isa isa : isas()) {
    for (std::int64_t n : kOddCounts) {
      for (std::uint64_t first : {0ull, 1ull, 6ull, (1ull << 34) - 3}) {
        for (double p : {0.0, 0.1, 0.5, 1.0 / 3}) {
          if (n > 1000 && (p != 0.1 || first != 6)) continue;
          SCOPED_TRACE(cat(name_of(isa), " n ", n, " first ", first, " p ", p));
          std::vector<T> x = normal_values<T>(n, 13), y(x.size());
          ElementDropout args{DTypeOf<T>::value, n, p, key, first, x.data(), y.data()};
          run_on(isa, args);
          std::int64_t wrong = 0;
          for (std::size_t i = 0; i < x.size(); ++i) {
            bool kept = philox_uniform(key, first + i) >= p;
            T expected = static_cast<T>(static_cast<A>(x[i]) * static_cast<A>(1 / (1 - p)));
            wrong += as_double(y[i]) != (kept ? as_double(expected) : 0.0);
          }
          EXPECT_EQ(wrong, 0);
          args.y = x.data();
          run_on(isa, args);
          EXPECT_TRUE(same_bits(x, y)) << "y is x";
        }
      }
    }
  }
}

TEST(Pointwise, DropoutRatesZeroAndOne) {
  const PhiloxKey key{1, 2, 3};
  const std::int64_t n = 50;
  std::vector<float> nans(n, std::numeric_limits<float>::quiet_NaN()),
      x = normal_values<float>(n, 14);
  std::vector<float> y(n, 9);
  for (Isa isa : isas()) {
    SCOPED_TRACE(name_of(isa));
    run_on(isa, ElementDropout{DType::kFloat32, n, 1.0, key, 0, nans.data(), y.data()});
    EXPECT_EQ(y, std::vector<float>(n, 0.0f));
    run_on(isa, ElementDropout{DType::kFloat32, n, 0.0, key, 0, x.data(), y.data()});
    EXPECT_EQ(y, x);
    // A uniform number equal to p is kept; the next larger p drops it.
    double p = philox_uniform(key, 5);
    run_on(isa, ElementDropout{DType::kFloat32, n, p, key, 0, x.data(), y.data()});
    EXPECT_NE(y[5], 0);
    run_on(isa,
           ElementDropout{DType::kFloat32, n, std::nextafter(p, 1.0), key, 0, x.data(), y.data()});
    EXPECT_EQ(y[5], 0);
  }
}

TEST(Pointwise, DropoutKeepsExpectedShareWithSameBitsForAnyThreads) {
  const std::int64_t n = 1000003;
  const std::vector<float> ones(n, 1.0f);
  std::vector<float> reference(n), y(n);
  for (double p : {0.1, 0.5, 0.9}) {
    run(cpu_queue(),
        ElementDropout{DType::kFloat32, n, p, {42, 1, 2}, 3, ones.data(), reference.data()});
    double kept = 0, pairs = 0;
    for (std::size_t i = 0; i < ones.size(); ++i) {
      kept += reference[i] != 0;
      if (i) pairs += reference[i] != 0 && reference[i - 1] != 0;
    }
    double q = 1 - p;
    EXPECT_NEAR(kept / n, q, 5 * std::sqrt(p * q / n));
    // Neighbors are independent: both are kept with probability q^2.
    EXPECT_NEAR(pairs / n, q * q, 5 * std::sqrt((q * q + 2 * q * q * q - 3 * q * q * q * q) / n));
    for (Isa isa : isas()) {
      for (int threads : kThreadCounts) {
        Threads scope(threads);
        run_on(isa, ElementDropout{DType::kFloat32, n, p, {42, 1, 2}, 3, ones.data(), y.data()});
        EXPECT_TRUE(same_bits(y, reference)) << name_of(isa) << ", " << threads << " threads";
      }
    }
    run(cpu_queue(), ElementDropout{DType::kFloat32, n, p, {42, 1, 3}, 3, ones.data(), y.data()});
    EXPECT_FALSE(same_bits(y, reference)) << "another step, the same mask";
  }
}

TEST(Pointwise, DropPathScalesAreDropoutOfOnes) {
  const PhiloxKey key{7, 8, 9};
  for (Isa isa : isas()) {
    SCOPED_TRACE(name_of(isa));
    for (double p : {0.0, 0.2, 1.0}) {
      std::vector<float> scale(101, 9);
      std::vector<double> scale64(101, 9);
      run_on(isa, DropPathScales{DType::kFloat32, 101, p, key, 5, scale.data()});
      run_on(isa, DropPathScales{DType::kFloat64, 101, p, key, 5, scale64.data()});
      for (std::size_t b = 0; b < scale.size(); ++b) {
        bool kept = philox_uniform(key, 5 + b) >= p;
        ASSERT_EQ(scale[b], kept ? static_cast<float>(1 / (1 - p)) : 0.0f) << b;
        ASSERT_EQ(scale64[b], kept ? 1 / (1 - p) : 0.0) << b;
      }
    }
  }
}

TEST(Pointwise, StepInMemoryReplacesStepOfKey) {
  const std::int64_t n = 203;
  const PhiloxKey key{7, 8, 9};
  PhiloxKey at_step = key;
  at_step.step = 41;
  const std::uint32_t step = 41;
  std::vector<float> x = normal_values<float>(n, 18), expected(n), y(n);
  for (Isa isa : isas()) {
    SCOPED_TRACE(name_of(isa));
    run_on(isa, ElementDropout{DType::kFloat32, n, 0.5, at_step, 3, x.data(), expected.data()});
    run_on(isa, ElementDropout{DType::kFloat32, n, 0.5, key, 3, x.data(), y.data(), &step});
    EXPECT_EQ(y, expected);
    run_on(isa, DropPathScales{DType::kFloat32, n, 0.5, at_step, 3, expected.data()});
    run_on(isa, DropPathScales{DType::kFloat32, n, 0.5, key, 3, y.data(), &step});
    EXPECT_EQ(y, expected);
  }
}

// The rows of a batch that a rank holds get the same mask as in the whole batch.
TYPED_TEST(Pointwise, RowDropoutMatchesWholeBatch) {
  using T = TypeParam;
  const PhiloxKey key{7, 8, 9};
  const std::vector<std::int64_t> rows = {1, 4, 5, 6, 10};
  const auto count = static_cast<std::int64_t>(rows.size());
  for (Isa isa : isas()) {
    for (std::int64_t per_row : {1, 3, 8, 37, 1500}) {
      SCOPED_TRACE(cat(name_of(isa), ", rows of ", per_row));
      const DType dtype = DTypeOf<T>::value;
      std::vector<T> x = normal_values<T>(12 * per_row, 19), whole(x.size()), part, y, expected;
      run_on(isa, ElementDropout{dtype, 12 * per_row, 0.4, key, 0, x.data(), whole.data()});
      for (std::int64_t row : rows) {
        part.insert(part.end(), x.begin() + row * per_row, x.begin() + (row + 1) * per_row);
        expected.insert(expected.end(), whole.begin() + row * per_row,
                        whole.begin() + (row + 1) * per_row);
      }
      y.resize(part.size());
      run_on(isa, ElementDropout{dtype, count * per_row, 0.4, key, 99, part.data(), y.data(),
                                 nullptr, rows.data(), per_row});
      EXPECT_TRUE(same_bits(y, expected));
    }
    std::vector<AccumulatorOf<T>> whole(12), scale(rows.size());
    const DType dtype = DTypeOf<AccumulatorOf<T>>::value;
    run_on(isa, DropPathScales{dtype, 12, 0.4, key, 0, whole.data()});
    run_on(isa, DropPathScales{dtype, count, 0.4, key, 99, scale.data(), nullptr, rows.data()});
    for (std::size_t b = 0; b < rows.size(); ++b) {
      EXPECT_EQ(scale[b], whole[static_cast<std::size_t>(rows[b])]) << b;
    }
  }
}

TYPED_TEST(Pointwise, ElementwiseSameBitsForAnyNumberOfThreads) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  const std::int64_t n = 300007;
  std::vector<T> x = normal_values<T>(n, 15), b = normal_values<T>(n, 16);
  std::vector<A> scale = normal_values<A>(n / 1000 + 1, 17);
  for (Isa isa : isas()) {
    std::vector<T> first;
    for (int threads : kThreadCounts) {
      Threads scope(threads);
      std::vector<T> y(x.size());
      run_on(isa,
             ScaleRows{DTypeOf<T>::value, n, 1000, scale.data(), x.data(), b.data(), y.data()});
      run_on(isa, Add{DTypeOf<T>::value, n, y.data(), b.data(), y.data()});
      if (first.empty()) first = y;
      EXPECT_TRUE(same_bits(y, first)) << name_of(isa) << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace dtn::test
