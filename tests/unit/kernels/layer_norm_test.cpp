#include "kernels/norm/layer_norm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dtn/core/check.h"
#include "kernels/pointwise/pointwise.h"
#include "unit/kernels/errors.h"

DTN_RUN_ON_EACH_ISA(LayerNormForward)
DTN_RUN_ON_EACH_ISA(LayerNormBackward)
DTN_RUN_ON_EACH_ISA(Add)
DTN_RUN_ON_EACH_ISA(ScaleRows)

namespace dtn::test {
namespace {

// Inputs and outputs of both kernels.
template <class T>
struct Problem {
  using A = AccumulatorOf<T>;
  std::int64_t rows, channels;
  double eps = 1e-5;
  std::vector<T> x, y, dy, dx;
  std::vector<A> weight, bias, mean, rstd, dweight, dbias;

  Problem(std::int64_t r, std::int64_t c, double x_mean = 0)
      : rows(r),
        channels(c),
        x(normal_values<T>(r * c, 1, x_mean)),
        y(r * c),
        dy(normal_values<T>(r * c, 2)),
        dx(r * c),
        weight(normal_values<A>(c, 3, 1, 0.3)),
        bias(normal_values<A>(c, 4)),
        mean(r),
        rstd(r),
        dweight(c),
        dbias(c) {}

  LayerNormForward forward() {
    return {DTypeOf<T>::value, rows,        channels, eps,         x.data(),
            weight.data(),     bias.data(), y.data(), mean.data(), rstd.data()};
  }
  LayerNormBackward backward() {
    return {.dtype = DTypeOf<T>::value,
            .rows = rows,
            .channels = channels,
            .x = x.data(),
            .weight = weight.data(),
            .mean = mean.data(),
            .rstd = rstd.data(),
            .dy = dy.data(),
            .dx = dx.data(),
            .dweight = dweight.data(),
            .dbias = dbias.data()};
  }
  void run(Isa isa) {
    run_on(isa, forward());
    run_on(isa, backward());
  }
};

struct Expected {
  Doubles y, dx, dweight, dbias;
};

// Expected results, from the formulas in float64.
template <class T>
Expected reference(const Problem<T>& p) {
  const std::size_t C = p.channels;
  Expected e{Doubles(p.x.size()), Doubles(p.x.size()), Doubles(C), Doubles(C)};
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const std::size_t at = r * C;
    double mean = 0, var = 0, sum = 0, dot = 0;
    for (std::size_t c = 0; c < C; ++c) mean += as_double(p.x[at + c]) / C;
    for (std::size_t c = 0; c < C; ++c) var += std::pow(as_double(p.x[at + c]) - mean, 2) / C;
    const double rstd = 1 / std::sqrt(var + p.eps);
    Doubles xhat(C), dxhat(C);
    for (std::size_t c = 0; c < C; ++c) {
      const double dy = as_double(p.dy[at + c]);
      xhat[c] = (as_double(p.x[at + c]) - mean) * rstd;
      dxhat[c] = dy * p.weight[c];
      e.y[at + c] = xhat[c] * p.weight[c] + p.bias[c];
      e.dweight[c] += dy * xhat[c];
      e.dbias[c] += dy;
      sum += dxhat[c] / C;
      dot += dxhat[c] * xhat[c] / C;
    }
    for (std::size_t c = 0; c < C; ++c) {
      e.dx[at + c] = rstd * (dxhat[c] - sum - xhat[c] * dot);
    }
  }
  return e;
}

// Stored bfloat16 may also be off by half a unit in the last of its 8 bits.
template <class T>
constexpr double tolerance() {
  return std::is_same_v<T, double> ? 1e-12 : 1e-5;
}
template <class T>
constexpr double stored_tolerance() {
  return tolerance<T>() + (std::is_same_v<T, bfloat16> ? 0x1p-8 : 0);
}

template <class T>
void check(Problem<T>& p, Isa isa) {
  SCOPED_TRACE(cat(name_of(isa), " ", name_of(DTypeOf<T>::value), " ", p.rows, " x ", p.channels));
  const Expected expected = reference(p);
  p.run(isa);
  EXPECT_LE(error(doubles(p.y), expected.y), stored_tolerance<T>());
  EXPECT_LE(error(doubles(p.dx), expected.dx), stored_tolerance<T>());
  EXPECT_LE(error(doubles(p.dweight), expected.dweight), tolerance<T>());
  EXPECT_LE(error(doubles(p.dbias), expected.dbias), tolerance<T>());
}

using Types = ::testing::Types<float, bfloat16, double>;
template <class T>
class LayerNorm : public ::testing::Test {};
TYPED_TEST_SUITE(LayerNorm, Types);

TYPED_TEST(LayerNorm, MatchesFormulas) {
  for (Isa isa : isas()) {
    for (std::int64_t rows : {1, 3, 197, 1031}) {
      // With 1 or 2 channels dx is all cancellation.
      for (std::int64_t channels : {3, 7, 64, 100, 432}) {
        Problem<TypeParam> p(rows, channels);
        check(p, isa);
      }
    }
  }
}

TYPED_TEST(LayerNorm, ZeroWeightAndConstantRows) {
  for (Isa isa : isas()) {
    Problem<TypeParam> zero(19, 50), constant(19, 50);
    std::fill(zero.weight.begin(), zero.weight.end(), 0);
    check(zero, isa);
    EXPECT_GT(largest(doubles(zero.dweight)), 1);
    std::fill_n(constant.x.begin(), 10 * 50, static_cast<TypeParam>(3.0f));
    check(constant, isa);
  }
}

TEST(LayerNormNumerics, LargeMean) {
  for (Isa isa : isas()) {
    Problem<float> p(197, 432, 1e3);
    check(p, isa);
  }
}

// Central differences of the forward kernel, against the backward kernel.
TEST(LayerNormNumerics, GradientByCentralDifferences) {
  for (Isa isa : isas()) {
    Problem<double> p(5, 11);
    p.run(isa);
    auto difference = [&](double& v) {
      const double saved = v, step = 1e-5;
      double total[2];
      for (int side : {0, 1}) {
        v = saved + (side ? step : -step);
        run_on(isa, p.forward());
        total[side] = 0;
        for (std::size_t i = 0; i < p.y.size(); ++i) total[side] += p.y[i] * p.dy[i];
      }
      v = saved;
      return (total[1] - total[0]) / (2 * step);
    };
    auto differences = [&](Doubles& values) {
      Doubles out;
      for (double& v : values) out.push_back(difference(v));
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

TYPED_TEST(LayerNorm, SameBitsForAnyNumberOfThreads) {
  for (Isa isa : isas()) {
    Threads serial(1);
    Problem<TypeParam> one(3137, 100);
    one.run(isa);
    for (int threads : kThreadCounts) {
      Threads parallel(threads);
      Problem<TypeParam> many(3137, 100);
      many.run(isa);
      EXPECT_TRUE(same_bits(many.y, one.y) && same_bits(many.dx, one.dx) &&
                  same_bits(many.mean, one.mean) && same_bits(many.rstd, one.rstd) &&
                  same_bits(many.dweight, one.dweight) && same_bits(many.dbias, one.dbias))
          << name_of(isa) << ", " << threads << " threads";
    }
  }
}

TYPED_TEST(LayerNorm, AccumulatesAndRunsInPlace) {
  using A = AccumulatorOf<TypeParam>;
  for (Isa isa : isas()) {
    Problem<TypeParam> plain(21, 37), other(21, 37);
    plain.run(isa);
    other.run(isa);
    const std::vector<TypeParam> residual = normal_values<TypeParam>(21 * 37, 5);
    LayerNormBackward args = other.backward();
    other.dx = residual;
    args.dx_add = other.dx.data();
    run_on(isa, args);
    for (std::size_t i = 0; i < residual.size(); ++i) {
      const double sum = as_double(plain.dx[i]) + as_double(residual[i]);
      EXPECT_NEAR(as_double(other.dx[i]), sum, 4 * epsilon_of<TypeParam>() * (1 + std::fabs(sum)));
    }
    for (std::int64_t c = 0; c < 37; ++c) {
      EXPECT_NEAR(other.dweight[c], 2 * plain.dweight[c], 64 * epsilon_of<A>());
      EXPECT_NEAR(other.dbias[c], 2 * plain.dbias[c], 64 * epsilon_of<A>());
    }
    args.dx_add = nullptr;
    args.dweight = args.dbias = nullptr;
    args.dx = other.dy.data();
    run_on(isa, args);
    EXPECT_TRUE(same_bits(other.dy, plain.dx));
    LayerNormForward forward = other.forward();
    forward.y = other.x.data();
    run_on(isa, forward);
    EXPECT_TRUE(same_bits(other.x, plain.y));
  }
}

// The residual kernel and dbranch against the separate kernels that they replace.
TYPED_TEST(LayerNorm, ResidualHasBitsOfSeparateKernels) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  constexpr std::int64_t kRows = 21, kChannels = 37, kRowsPerScale = 4;
  constexpr DType dtype = DTypeOf<T>::value;
  const std::vector<T> branch = normal_values<T>(kRows * kChannels, 5);
  const std::vector<A> scales = normal_values<A>(6, 6);
  for (Isa isa : isas()) {
    for (bool scaled : {true, false}) {
      Problem<T> parts(kRows, kChannels), fused(kRows, kChannels);
      std::vector<T> sum(parts.x.size()), dbranch(parts.x.size()), expected(parts.x.size());
      auto scale = [&](const std::vector<T>& x, const T* residual, std::vector<T>& y) {
        run_on(isa, ScaleRows{dtype, kRows * kChannels, kRowsPerScale * kChannels, scales.data(),
                              x.data(), residual, y.data()});
      };

      LayerNormForward forward = fused.forward();
      forward.x = nullptr;
      forward.residual = fused.x.data();
      forward.branch = branch.data();
      forward.row_scale = scaled ? scales.data() : nullptr;
      forward.rows_per_scale = kRowsPerScale;
      forward.sum = sum.data();
      run_on(isa, forward);
      if (scaled) {
        scale(branch, parts.x.data(), parts.x);
      } else {
        run_on(isa, Add{dtype, kRows * kChannels, parts.x.data(), branch.data(), parts.x.data()});
      }
      run_on(isa, parts.forward());
      EXPECT_TRUE(same_bits(sum, parts.x) && same_bits(fused.y, parts.y) &&
                  same_bits(fused.mean, parts.mean) && same_bits(fused.rstd, parts.rstd));
      forward.sum = fused.x.data();
      run_on(isa, forward);
      EXPECT_TRUE(same_bits(fused.x, parts.x));
      LayerNormForward without_bias = forward;
      without_bias.bias = nullptr;
      EXPECT_THROW(run_on(isa, without_bias), std::exception);

      LayerNormBackward backward = fused.backward();
      backward.dbranch = dbranch.data();
      std::vector<A> sums(kChannels, A(1)), expected_sums(kChannels, A(1));
      backward.dbranch_sums = sums.data();
      backward.row_scale = forward.row_scale;
      backward.rows_per_scale = kRowsPerScale;
      run_on(isa, backward);
      run_on(isa, parts.backward());
      EXPECT_TRUE(same_bits(fused.dx, parts.dx) && same_bits(fused.dweight, parts.dweight));
      expected = parts.dx;
      if (scaled) scale(parts.dx, nullptr, expected);
      EXPECT_TRUE(same_bits(dbranch, expected));
      run(cpu_queue(), SumRows{dtype, kRows, kChannels, expected.data(), expected_sums.data()});
      EXPECT_TRUE(same_bits(sums, expected_sums));
    }
  }
}

// Sets of rows against one call for each set: y and dx are bit-identical, and parameter gradients
// are in the right place. Also moments, and no parameters at all.
TYPED_TEST(LayerNorm, SetsOfRowsMatchSeparateCalls) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  constexpr std::int64_t kSets = 3, kRows = 21, kChannels = 37, kStride = 50;
  for (Isa isa : isas()) {
    SCOPED_TRACE(name_of(isa));
    Problem<T> all(kSets * kRows, kChannels);
    const std::vector<A> weight = normal_values<A>(kSets * kStride, 5, 1, 0.3);
    const std::vector<A> bias = normal_values<A>(kSets * kStride, 6);
    const std::vector<A> dmean = normal_values<A>(kSets * kRows, 7);
    const std::vector<A> dstd = normal_values<A>(kSets * kRows, 8);
    std::vector<A> dweight(kSets * kStride), dbias(kSets * kStride);
    std::vector<A> row_mean(kSets * kRows), row_std(kSets * kRows);
    auto forward = all.forward();
    forward.weight = weight.data(), forward.bias = bias.data();
    forward.sets = {kRows, kStride};
    forward.row_mean = row_mean.data(), forward.row_std = row_std.data();
    run_on(isa, forward);
    auto backward = all.backward();
    backward.weight = weight.data();
    backward.dweight = dweight.data(), backward.dbias = dbias.data();
    backward.sets = forward.sets;
    run_on(isa, backward);
    const std::vector<T> plain_dx = all.dx;
    const std::vector<A> first_dweight = dweight;
    backward.drow_mean = dmean.data(), backward.drow_std = dstd.data();
    run_on(isa, backward);

    for (std::int64_t s = 0; s < kSets; ++s) {
      Problem<T> one(kRows, kChannels);
      const std::int64_t at = s * kRows * kChannels;
      std::copy_n(all.x.begin() + at, one.x.size(), one.x.begin());
      std::copy_n(all.dy.begin() + at, one.dy.size(), one.dy.begin());
      std::copy_n(weight.begin() + s * kStride, kChannels, one.weight.begin());
      std::copy_n(bias.begin() + s * kStride, kChannels, one.bias.begin());
      one.run(isa);
      auto part = [&](const auto& v, std::int64_t begin, std::int64_t n) {
        return std::vector<std::remove_cvref_t<decltype(v[0])>>(v.begin() + begin,
                                                                v.begin() + begin + n);
      };
      EXPECT_TRUE(same_bits(part(all.y, at, kRows * kChannels), one.y));
      EXPECT_TRUE(same_bits(part(plain_dx, at, kRows * kChannels), one.dx));
      EXPECT_LE(error(doubles(part(first_dweight, s * kStride, kChannels)), doubles(one.dweight)),
                tolerance<T>());
      for (std::int64_t c = kChannels; c < kStride; ++c) {
        EXPECT_EQ(dweight[s * kStride + c], 0) << "between the sets";
      }
      // The gradients of the moments, element by element.
      for (std::int64_t r = 0; r < kRows; ++r) {
        const std::int64_t row = s * kRows + r;
        double mean = 0, var = 0;
        for (std::int64_t c = 0; c < kChannels; ++c) {
          mean += as_double(one.x[r * kChannels + c]) / kChannels;
        }
        for (std::int64_t c = 0; c < kChannels; ++c) {
          var += std::pow(as_double(one.x[r * kChannels + c]) - mean, 2) / kChannels;
        }
        const double std = std::sqrt(var + one.eps);
        EXPECT_NEAR(row_mean[row], mean, 1e-6);
        EXPECT_NEAR(row_std[row], std, 1e-6);
        for (std::int64_t c = 0; c < kChannels; ++c) {
          const std::int64_t i = r * kChannels + c;
          const double xhat = (as_double(one.x[i]) - mean) / std;
          EXPECT_NEAR(as_double(all.dx[at + i]),
                      as_double(one.dx[i]) + (dmean[row] + dstd[row] * xhat) / kChannels,
                      2 * stored_tolerance<T>() * 4);
        }
      }
    }
    Problem<T> with(kRows, kChannels), without(kRows, kChannels);
    std::fill(with.weight.begin(), with.weight.end(), 1);
    std::fill(with.bias.begin(), with.bias.end(), 0);
    with.run(isa);
    auto bare = without.forward();
    bare.weight = bare.bias = nullptr;
    run_on(isa, bare);
    auto bare_backward = without.backward();
    bare_backward.weight = nullptr;
    bare_backward.dweight = bare_backward.dbias = nullptr;
    run_on(isa, bare_backward);
    EXPECT_TRUE(same_bits(without.y, with.y) && same_bits(without.dx, with.dx));
  }
}

TEST(LayerNormErrors, RejectsIntegers) {
  Problem<float> p(2, 4);
  LayerNormForward args = p.forward();
  args.dtype = DType::kInt64;
  EXPECT_THROW(run(cpu_queue(), args), Error);
}

}  // namespace
}  // namespace dtn::test
