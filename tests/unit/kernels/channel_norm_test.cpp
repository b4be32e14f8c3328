#include "kernels/norm/channel_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "dtn/core/check.h"
#include "unit/kernels/errors.h"

DTN_RUN_ON_EACH_ISA(ChannelNormForward)
DTN_RUN_ON_EACH_ISA(ChannelNormBackward)
DTN_RUN_ON_EACH_ISA(MoveRunningStatistics)

namespace dtn::test {
namespace {

struct Sizes {
  std::int64_t sets, rows, channels, groups;
  std::int64_t values() const { return rows * (channels / groups); }
  std::int64_t count() const { return sets * rows * channels; }
};

// Inputs and outputs of both kernels.
template <class T>
struct Problem {
  using A = AccumulatorOf<T>;
  Sizes n;
  bool of_sets, unbiased = false, frozen = false, relu = false;
  std::int64_t total_rows = 0;
  double eps = 1e-5;
  std::vector<T> x, dy, add, y, dx;
  std::vector<A> weight, bias, mean, rest, variance, sums, dweight, dbias;

  explicit Problem(const Sizes& sizes, double x_mean = 0, bool gains_of_sets = false)
      : n(sizes),
        of_sets(gains_of_sets),
        x(normal_values<T>(n.count(), 1, x_mean)),
        dy(normal_values<T>(n.count(), 2)),
        add(normal_values<T>(n.count(), 3)),
        y(n.count()),
        dx(n.count()),
        weight(normal_values<A>(gains(), 4, 1, 0.3)),
        bias(normal_values<A>(gains(), 5)),
        mean(n.sets * n.groups),
        rest(n.sets * n.groups),
        variance(n.sets * n.groups),
        sums(n.sets * 2 * n.channels),
        dweight(gains()),
        dbias(gains()) {}

  std::int64_t gains() const { return (of_sets ? n.sets : 1) * n.channels; }
  ChannelNormArguments arguments(ChannelNormPart part) {
    return {.dtype = DTypeOf<T>::value,
            .part = part,
            .sets = n.sets,
            .rows = n.rows,
            .channels = n.channels,
            .groups = n.groups,
            .eps = eps,
            .unbiased = unbiased,
            .x = x.data(),
            .weight = weight.empty() ? nullptr : weight.data(),
            .bias = bias.empty() ? nullptr : bias.data(),
            .parameter_stride = of_sets ? n.channels : 0,
            .relu = relu};
  }
  ChannelNormForward forward(ChannelNormPart part = ChannelNormPart::kWhole) {
    return {arguments(part), y.data(), mean.data(), rest.data(), variance.data()};
  }
  ChannelNormBackward backward(ChannelNormPart part = ChannelNormPart::kWhole) {
    ChannelNormBackward args{arguments(part), frozen,          total_rows, mean.data(),
                             rest.data(),     variance.data(), dy.data(),  sums.data()};
    args.dx_add = add.empty() ? nullptr : add.data();
    args.dx = dx.data();
    args.dweight = dweight.empty() ? nullptr : dweight.data();
    args.dbias = dbias.empty() ? nullptr : dbias.data();
    return args;
  }
  void run(Isa isa) {
    run_on(isa, forward());
    run_on(isa, backward());
  }
  void run_in_parts(Isa isa) {
    run_on(isa, forward(ChannelNormPart::kStatistics));
    run_on(isa, forward(ChannelNormPart::kApplication));
    run_on(isa, backward(ChannelNormPart::kStatistics));
    run_on(isa, backward(ChannelNormPart::kApplication));
  }
};

struct Expected {
  Doubles y, dx, mean, variance, sums, dweight, dbias;
};

// Expected results, from the formulas in float64.
template <class T>
Expected reference(const Problem<T>& p) {
  const auto [S, R, C, G] = p.n;
  const std::int64_t D = C / G, N = p.n.values();
  Expected e{Doubles(p.x.size()),    Doubles(p.x.size()),    Doubles(p.mean.size()),
             Doubles(p.mean.size()), Doubles(p.sums.size()), Doubles(p.gains()),
             Doubles(p.gains())};
  const auto at = [&, R = R, C = C](std::int64_t s, std::int64_t r, std::int64_t c) {
    return static_cast<std::size_t>((s * R + r) * C + c);
  };
  for (std::int64_t s = 0; s < S; ++s) {
    for (std::int64_t g = 0; g < G; ++g) {
      double& mean = e.mean[s * G + g];
      double& var = e.variance[s * G + g];
      auto each = [&, R = R](auto&& f) {
        for (std::int64_t r = 0; r < R; ++r) {
          for (std::int64_t c = g * D; c < (g + 1) * D; ++c) f(at(s, r, c), c);
        }
      };
      const double squares_of = std::max<double>(1, static_cast<double>(N - (p.unbiased ? 1 : 0)));
      each([&](std::size_t i, std::int64_t) { mean += as_double(p.x[i]) / N; });
      each([&](std::size_t i, std::int64_t) {
        var += std::pow(as_double(p.x[i]) - mean, 2) / squares_of;
      });
      const double rstd = 1 / std::sqrt(var + p.eps);
      double sum = 0, dot = 0;
      auto gain = [&, C = C](const std::vector<typename Problem<T>::A>& v, std::int64_t c,
                             double absent) {
        return v.empty() ? absent : static_cast<double>(v[p.of_sets ? s * C + c : c]);
      };
      auto xhat = [&](std::size_t i) { return (as_double(p.x[i]) - mean) * rstd; };
      auto value = [&](std::size_t i, std::int64_t c) {
        return xhat(i) * gain(p.weight, c, 1) + gain(p.bias, c, 0);
      };
      auto dy_of = [&](std::size_t i, std::int64_t c) {
        return p.relu && value(i, c) <= 0 ? 0 : as_double(p.dy[i]);
      };
      each([&, C = C](std::size_t i, std::int64_t c) {
        const double dy = dy_of(i, c), w = gain(p.weight, c, 1);
        e.y[i] = p.relu ? std::max(0.0, value(i, c)) : value(i, c);
        e.sums[s * 2 * C + c] += dy;
        e.sums[(s * 2 + 1) * C + c] += dy * xhat(i);
        e.dbias[p.of_sets ? s * C + c : c] += dy;
        e.dweight[p.of_sets ? s * C + c : c] += dy * xhat(i);
        sum += dy * w;
        dot += dy * w * xhat(i);
      });
      const double n = static_cast<double>(p.total_rows ? p.total_rows * D : N);
      each([&](std::size_t i, std::int64_t c) {
        double d = dy_of(i, c) * gain(p.weight, c, 1);
        if (!p.frozen) d -= sum / n + xhat(i) * dot / std::max(1.0, n - (p.unbiased ? 1 : 0));
        e.dx[i] = d * rstd + (p.add.empty() ? 0 : as_double(p.add[i]));
      });
    }
  }
  return e;
}

// Tolerance for a sum of `terms` rounded numbers. Stored results are also rounded to T.
template <class T>
double tolerance(std::int64_t terms) {
  const double u = std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
  return 5 * u * std::sqrt(static_cast<double>(terms + 16));
}
template <class T>
double stored_tolerance(std::int64_t terms) {
  return tolerance<T>(terms) + (std::is_same_v<T, bfloat16> ? 0x1p-8 : 0);
}

template <class T>
void check(Problem<T>& p, Isa isa, bool in_parts = false) {
  SCOPED_TRACE(cat(name_of(isa), " ", name_of(DTypeOf<T>::value), " ", p.n.sets, " x ", p.n.rows,
                   " x ", p.n.channels, " / ", p.n.groups));
  const Expected expected = reference(p);
  in_parts ? p.run_in_parts(isa) : p.run(isa);
  const std::int64_t terms = p.n.values(), all = terms + p.n.rows * p.n.sets;
  EXPECT_LE(error(doubles(p.y), expected.y), stored_tolerance<T>(terms));
  EXPECT_LE(error(doubles(p.dx), expected.dx), stored_tolerance<T>(terms));
  EXPECT_LE(error(doubles(p.variance), expected.variance), tolerance<T>(terms));
  EXPECT_LE(error(doubles(p.sums), expected.sums), tolerance<T>(terms));
  if (!p.dweight.empty()) {
    EXPECT_LE(error(doubles(p.dweight), expected.dweight), tolerance<T>(all));
  }
  if (!p.dbias.empty()) {
    EXPECT_LE(error(doubles(p.dbias), expected.dbias), tolerance<T>(all));
  }
  const double deviation = std::sqrt(largest(expected.variance));
  for (std::size_t i = 0; i < p.mean.size(); ++i) {
    EXPECT_LE(std::abs((as_double(p.mean[i]) - expected.mean[i]) + as_double(p.rest[i])),
              tolerance<T>(terms) * deviation);
  }
}

using Types = ::testing::Types<float, bfloat16, double>;
template <class T>
class ChannelNorm : public ::testing::Test {};
TYPED_TEST_SUITE(ChannelNorm, Types);

// Sets that are one task each, of one part and of several; sets that are split; single channels,
// groups, and all channels together; primes. With two rows dx is all cancellation.
const Sizes kSizes[] = {{9, 196, 48, 48},  {8, 197, 48, 4},  {11, 7, 77, 7}, {8, 521, 12, 3},
                        {1, 3137, 20, 20}, {2, 197, 100, 1}, {3, 3, 7, 7},   {1, 1031, 33, 11}};

TYPED_TEST(ChannelNorm, MatchesFormulas) {
  for (Isa isa : isas()) {
    for (const Sizes& n : kSizes) {
      for (bool of_sets : {false, true}) {
        Problem<TypeParam> p(n, 0, of_sets);
        check(p, isa);
        Problem<TypeParam> unbiased(n, 0.5, of_sets);
        unbiased.unbiased = true;
        check(unbiased, isa, true);
      }
    }
  }
}

// A rounding error at the kink of relu would be as large as the gradient.
template <class T>
void ignore_kinks(Problem<T>& p) {
  const bool relu = std::exchange(p.relu, false);
  const Expected expected = reference(p);
  for (std::size_t i = 0; i < p.dy.size(); ++i) {
    if (std::abs(expected.y[i]) < 1e-2) p.dy[i] = T(0.0f);
  }
  p.relu = relu;
}

TYPED_TEST(ChannelNorm, Relu) {
  for (Isa isa : isas()) {
    for (const Sizes& n : kSizes) {
      for (bool in_parts : {false, true}) {
        Problem<TypeParam> p(n, 0.5, in_parts);
        p.relu = true;
        ignore_kinks(p);
        check(p, isa, in_parts);
      }
    }
    Problem<TypeParam> frozen(kSizes[0]);
    frozen.relu = frozen.frozen = true;
    ignore_kinks(frozen);
    check(frozen, isa);
    Problem<TypeParam> bare(kSizes[4]);
    bare.relu = true;
    bare.weight.clear();
    bare.bias.clear();
    ignore_kinks(bare);
    check(bare, isa);
  }
}

TYPED_TEST(ChannelNorm, NoParametersFrozenStatisticsOrMoreRows) {
  for (Isa isa : isas()) {
    for (const Sizes& n : {kSizes[1], kSizes[4]}) {
      Problem<TypeParam> bare(n), frozen(n), more(n);
      for (auto* v : {&bare.weight, &bare.bias, &bare.dweight, &bare.dbias}) v->clear();
      check(bare, isa);
      frozen.frozen = true;
      check(frozen, isa);
      more.total_rows = 3 * n.rows;
      check(more, isa, true);
    }
  }
}

TYPED_TEST(ChannelNorm, ZeroWeightAndConstantRows) {
  for (Isa isa : isas()) {
    for (const Sizes& n : {kSizes[2], kSizes[7]}) {
      Problem<TypeParam> zero(n), constant(n);
      std::fill(zero.weight.begin(), zero.weight.end(), 0);
      zero.add.clear();
      check(zero, isa);
      EXPECT_GT(largest(doubles(zero.dweight)), 1);
      EXPECT_EQ(largest(doubles(zero.dx)), 0);
      // A constant set next to other sets, so that the bounds remain relative.
      std::fill_n(constant.x.begin(), n.rows * n.channels, static_cast<TypeParam>(3.0f));
      Doubles bias = doubles(constant.bias);
      constant.run(isa);
      for (std::int64_t i = 0; i < n.rows * n.channels; ++i) {
        EXPECT_EQ(as_double(constant.y[i]),
                  as_double(static_cast<TypeParam>(constant.bias[i % n.channels])));
      }
      EXPECT_EQ(constant.variance[0], 0);
      EXPECT_TRUE(std::isfinite(largest(doubles(constant.dx))));
    }
  }
}

TEST(ChannelNormNumerics, LargeMeanAndOutlierRow) {
  for (Isa isa : isas()) {
    for (const Sizes& n : kSizes) {
      if (n.rows < 4) continue;
      Problem<float> far(n, 1e3);
      check(far, isa);
      // The first row of each set is an outlier, like a class token: the pivot must not follow it.
      Problem<float> outlier(n, 10);
      for (std::int64_t s = 0; s < n.sets; ++s) {
        for (std::int64_t c = 0; c < n.channels; ++c) {
          outlier.x[s * n.rows * n.channels + c] += 1e3f;
        }
      }
      check(outlier, isa);
    }
  }
}

TEST(ChannelNormNumerics, SingleRowGivesBiasAndZeroGradient) {
  for (Isa isa : isas()) {
    for (const Sizes& n : {Sizes{1, 1, 24, 24}, Sizes{9, 1, 7, 7}}) {
      Problem<float> p(n);
      p.add.clear();
      p.unbiased = n.sets > 1;
      p.run(isa);
      EXPECT_EQ(largest(doubles(p.dx)), 0);
      EXPECT_EQ(largest(doubles(p.dweight)), 0);
      for (std::int64_t i = 0; i < n.count(); ++i) EXPECT_EQ(p.y[i], p.bias[i % n.channels]);
    }
  }
}

// Central differences of the forward kernel, against the backward kernel.
TEST(ChannelNormNumerics, GradientByCentralDifferences) {
  for (Isa isa : isas()) {
    for (bool unbiased : {false, true}) {
      Problem<double> p({2, 5, 6, 3}, 0, true);
      p.unbiased = unbiased;
      p.add.clear();
      p.run(isa);
      auto differences = [&](Doubles& values) {
        Doubles out;
        for (double& v : values) {
          const double saved = v, step = 1e-5;
          double total[2] = {};
          for (int side : {0, 1}) {
            v = saved + (side ? step : -step);
            run_on(isa, p.forward());
            for (std::size_t i = 0; i < p.y.size(); ++i) total[side] += p.y[i] * p.dy[i];
          }
          v = saved;
          out.push_back((total[1] - total[0]) / (2 * step));
        }
        EXPECT_GT(largest(out), 0.1);
        return out;
      };
      const Doubles dx = differences(p.x);
      EXPECT_LE(error(p.dx, dx), 1e-6);
      EXPECT_LE(error(p.dweight, differences(p.weight)), 1e-6);
      EXPECT_LE(error(p.dbias, differences(p.bias)), 1e-6);
      // A wrong gradient is detected.
      p.mean[2] += 0.01;
      run_on(isa, p.backward());
      EXPECT_GT(error(p.dx, dx), 1e-4);
    }
  }
}

TYPED_TEST(ChannelNorm, SameBitsForAnyNumberOfThreadsAndInParts) {
  for (Isa isa : isas()) {
    for (const Sizes& n : {kSizes[0], kSizes[3], kSizes[4]}) {
      Threads serial(1);
      Problem<TypeParam> one(n);
      one.run(isa);
      auto expect_same = [&](const Problem<TypeParam>& p, const char* what) {
        EXPECT_TRUE(same_bits(p.y, one.y) && same_bits(p.dx, one.dx) &&
                    same_bits(p.mean, one.mean) && same_bits(p.rest, one.rest) &&
                    same_bits(p.variance, one.variance) && same_bits(p.sums, one.sums) &&
                    same_bits(p.dweight, one.dweight) && same_bits(p.dbias, one.dbias))
            << name_of(isa) << what;
      };
      for (int threads : kThreadCounts) {
        Threads parallel(threads);
        Problem<TypeParam> many(n), parts(n);
        many.run(isa);
        expect_same(many, " threads");
        parts.run_in_parts(isa);
        expect_same(parts, " parts");
      }
    }
  }
}

TYPED_TEST(ChannelNorm, AccumulatesAndRunsInPlace) {
  for (Isa isa : isas()) {
    for (const Sizes& n : {kSizes[2], kSizes[5]}) {
      Problem<TypeParam> apart(n), over_add(n), over_dy(n);
      apart.run(isa);
      run_on(isa, over_add.forward());
      ChannelNormBackward args = over_add.backward();
      args.dx = over_add.add.data();
      run_on(isa, args);
      EXPECT_TRUE(same_bits(over_add.add, apart.dx));
      // Backward passes add to the parameter gradients.
      const Doubles once = doubles(apart.dweight);
      run_on(isa, apart.backward());
      for (std::size_t i = 0; i < once.size(); ++i) {
        EXPECT_EQ(as_double(apart.dweight[i]), 2 * once[i]);
      }
      apart.add.clear();
      run_on(isa, apart.backward());
      over_dy.add.clear();
      run_on(isa, over_dy.forward());
      args = over_dy.backward();
      args.dx = over_dy.dy.data();
      run_on(isa, args);
      EXPECT_TRUE(same_bits(over_dy.dy, apart.dx));
      ChannelNormForward forward = over_dy.forward();
      forward.y = over_dy.x.data();
      run_on(isa, forward);
      EXPECT_TRUE(same_bits(over_dy.x, apart.y));
    }
  }
}

TEST(ChannelNormNumerics, NaNAndInfinityStayInTheirGroup) {
  for (Isa isa : isas()) {
    for (float bad : {NAN, INFINITY}) {
      for (const Sizes& n : {kSizes[1], kSizes[5], kSizes[7]}) {
        const std::int64_t size = n.channels / n.groups, group = n.groups > 1 ? 1 : 0;
        Problem<float> p(n);
        p.x[((n.sets - 1) * n.rows + n.rows / 2) * n.channels + group * size] = bad;
        p.run(isa);
        for (std::int64_t i = 0; i < n.count(); ++i) {
          const bool hit =
              i / (n.rows * n.channels) == n.sets - 1 && i % n.channels / size == group;
          ASSERT_EQ(std::isnan(p.y[i]), hit) << i;
          ASSERT_EQ(std::isnan(p.dx[i]), hit) << i;
        }
      }
    }
  }
}

// The kernel reads only the inputs of the requested gradients, and writes only these gradients.
TEST(ChannelNormNumerics, ComputesRequestedOutputsOnly) {
  for (Isa isa : isas()) {
    for (const Sizes& n : {kSizes[2], kSizes[5]}) {
      Problem<float> all(n), some(n);
      all.run(isa);
      run_on(isa, some.forward());
      ChannelNormBackward only_dx = some.backward();
      only_dx.dweight = only_dx.dbias = only_dx.sums = nullptr;
      run_on(isa, only_dx);
      EXPECT_TRUE(same_bits(some.dx, all.dx));
      EXPECT_EQ(largest(doubles(some.dweight)), 0);
      some.dx.assign(some.dx.size(), 0);
      ChannelNormBackward only_bias = some.backward();
      only_bias.dweight = only_bias.dx = only_bias.sums = nullptr;
      run_on(isa, only_bias);
      EXPECT_TRUE(same_bits(some.dbias, all.dbias));
      EXPECT_EQ(largest(doubles(some.dweight)) + largest(doubles(some.dx)), 0);
      // With frozen statistics dx does not depend on x.
      some.frozen = true;
      some.run(isa);
      const std::vector<float> dx = some.dx;
      some.x.assign(some.x.size(), NAN);
      ChannelNormBackward frozen = some.backward();
      frozen.dweight = frozen.dbias = nullptr;
      run_on(isa, frozen);
      EXPECT_TRUE(same_bits(some.dx, dx));
    }
  }
}

TEST(ChannelNormNumerics, UpdatesRunningStatistics) {
  for (Isa isa : isas()) {
    for (std::int64_t rows : {1, 50}) {
      const Doubles mean = {1, -2, 0.5}, rest = {0.25, 0, 0}, variance = {4, 1, 0};
      Doubles next_mean = {0, 1, 2}, next_variance = {1, 1, 1};
      const Doubles was_mean = next_mean, was_variance = next_variance;
      run_on(isa, MoveRunningStatistics{DType::kFloat64, 3, rows, 0.1, mean.data(), rest.data(),
                                        variance.data(), next_mean.data(), next_variance.data()});
      for (std::size_t c = 0; c < 3; ++c) {
        const double unbiased = variance[c] * (rows == 1 ? 1 : 50.0 / 49);
        EXPECT_NEAR(next_mean[c], 0.9 * was_mean[c] + 0.1 * (mean[c] + rest[c]), 1e-15);
        EXPECT_NEAR(next_variance[c], 0.9 * was_variance[c] + 0.1 * unbiased, 1e-15);
      }
    }
  }
}

TEST(ChannelNormNumerics, EmptyInputIsNoOp) {
  for (Isa isa : isas()) {
    for (const Sizes& n : {Sizes{0, 5, 8, 8}, Sizes{5, 0, 8, 2}}) {
      Problem<float> p(n);
      p.run(isa);
    }
  }
}

}  // namespace
}  // namespace dtn::test
