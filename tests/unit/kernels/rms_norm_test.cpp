#include "kernels/norm/rms_norm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dtn/core/check.h"
#include "unit/kernels/errors.h"

DTN_RUN_ON_EACH_ISA(RmsNormForward)
DTN_RUN_ON_EACH_ISA(RmsNormBackward)

namespace dtn::test {
namespace {

// Inputs and outputs of both kernels. `shift`: misalignment of the activations, in elements.
template <class T>
struct Problem {
  using A = AccumulatorOf<T>;
  RmsNormKind kind;
  std::int64_t rows, channels, shift;
  double eps = 1e-5;
  std::vector<T> x, y, dy, dx;
  std::vector<A> weight, factor, dweight;

  Problem(RmsNormKind k, std::int64_t r, std::int64_t c, double x_mean = 0, std::int64_t s = 0)
      : kind(k),
        rows(r),
        channels(c),
        shift(s),
        x(normal_values<T>(r * c + s, 1, x_mean)),
        y(x.size()),
        dy(normal_values<T>(r * c + s, 2)),
        dx(x.size()),
        weight(normal_values<A>(c, 3, 1, 0.3)),
        factor(r),
        dweight(c) {}

  RmsNormArguments arguments() {
    return {DTypeOf<T>::value, kind, rows, channels, eps, x.data() + shift, weight.data()};
  }
  RmsNormForward forward() { return {arguments(), y.data() + shift, factor.data()}; }
  RmsNormBackward backward() {
    return {arguments(), factor.data(),     dy.data() + shift,
            nullptr,     dx.data() + shift, dweight.data()};
  }
  void run(Isa isa) {
    run_on(isa, forward());
    run_on(isa, backward());
  }
};

struct Expected {
  Doubles y, dx, dweight;
  double dx_terms = 0;  // largest term of the difference that gives dx
};

// Expected results, from the formulas in float64.
template <class T>
Expected reference(const Problem<T>& p) {
  const std::size_t C = p.channels;
  Expected e{Doubles(p.x.size()), Doubles(p.x.size()), Doubles(C)};
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const std::size_t at = r * C + p.shift;
    double squares = 0, dot = 0;
    for (std::size_t c = 0; c < C; ++c) squares += std::pow(as_double(p.x[at + c]), 2);
    const bool rms = p.kind == RmsNormKind::kRms;
    const double factor = rms ? 1 / std::sqrt(squares / C + p.eps)
                              : 1 / std::max(std::sqrt(squares), static_cast<double>(p.eps));
    const double share = rms ? 1.0 / C : std::sqrt(squares) > p.eps ? 1 : 0;
    for (std::size_t c = 0; c < C; ++c) {
      const double dy = as_double(p.dy[at + c]), xhat = as_double(p.x[at + c]) * factor;
      e.y[at + c] = xhat * p.weight[c];
      e.dweight[c] += dy * xhat;
      dot += dy * p.weight[c] * xhat * share;
    }
    for (std::size_t c = 0; c < C; ++c) {
      const double direct = factor * as_double(p.dy[at + c]) * p.weight[c];
      e.dx[at + c] = direct - factor * factor * as_double(p.x[at + c]) * dot;
      e.dx_terms = std::max(e.dx_terms, std::fabs(direct));
    }
  }
  return e;
}

// Roundoff times the square root of the number of terms; one more rounding to store a bfloat16.
template <class T>
double tolerance(std::int64_t terms, bool stored) {
  const double sums = epsilon_of<AccumulatorOf<T>>() * std::sqrt(static_cast<double>(terms));
  return 2 * sums + (stored ? epsilon_of<T>() / 2 : 0);
}

template <class T>
void check(Problem<T>& p, Isa isa) {
  SCOPED_TRACE(cat(name_of(isa), " ", name_of(DTypeOf<T>::value), " ", p.rows, " x ", p.channels,
                   p.kind == RmsNormKind::kRms ? " rms" : " scale"));
  const Expected expected = reference(p);
  p.run(isa);
  EXPECT_LE(error(doubles(p.y), expected.y), tolerance<T>(p.channels, true));
  EXPECT_LE(error(doubles(p.dx), expected.dx, expected.dx_terms), tolerance<T>(p.channels, true));
  EXPECT_LE(error(doubles(p.dweight), expected.dweight), tolerance<T>(p.rows + p.channels, false));
}

constexpr RmsNormKind kKinds[] = {RmsNormKind::kRms, RmsNormKind::kScale};

using Types = ::testing::Types<float, bfloat16, double>;
template <class T>
class RmsNorm : public ::testing::Test {};
TYPED_TEST_SUITE(RmsNorm, Types);

TYPED_TEST(RmsNorm, MatchesFormulas) {
  for (Isa isa : isas()) {
    for (RmsNormKind kind : kKinds) {
      for (std::int64_t rows : {1, 3, 196, 197, 1031}) {
        for (std::int64_t channels : {1, 7, 64, 100, 432}) {
          Problem<TypeParam> p(kind, rows, channels, 0, rows % 2);
          check(p, isa);
        }
      }
      Problem<TypeParam> far(kind, 197, 432, 1e3);
      check(far, isa);
    }
  }
}

TYPED_TEST(RmsNorm, ZeroWeightAndConstantRows) {
  for (Isa isa : isas()) {
    for (RmsNormKind kind : kKinds) {
      Problem<TypeParam> zero(kind, 19, 50), constant(kind, 19, 50);
      std::fill(zero.weight.begin(), zero.weight.end(), 0);
      check(zero, isa);
      EXPECT_EQ(largest(doubles(zero.dx)), 0);
      EXPECT_GT(largest(doubles(zero.dweight)), 0);
      std::fill_n(constant.x.begin(), 10 * 50, static_cast<TypeParam>(3.0f));
      check(constant, isa);
    }
  }
}

// Rows of zeros, and rows shorter than eps: y is small and smooth. If eps replaces the length, no
// gradient flows through the length.
TYPED_TEST(RmsNorm, RowsShorterThanEps) {
  using A = AccumulatorOf<TypeParam>;
  for (Isa isa : isas()) {
    for (RmsNormKind kind : kKinds) {
      Problem<TypeParam> p(kind, 4, 37);
      std::fill_n(p.x.begin(), 37, static_cast<TypeParam>(0.0f));
      for (int c = 37; c < 2 * 37; ++c) {
        p.x[c] = static_cast<TypeParam>(static_cast<A>(as_double(p.x[c]) * 1e-7));
      }
      check(p, isa);
      if (kind == RmsNormKind::kRms) continue;
      for (int r : {0, 1}) {
        EXPECT_EQ(p.factor[r], 1 / static_cast<A>(p.eps));
        for (int c = 37 * r; c < 37 * (r + 1); ++c) {
          const double straight = as_double(p.dy[c]) * p.weight[c % 37] / p.eps;
          EXPECT_NEAR(as_double(p.dx[c]), straight,
                      std::fabs(straight) * (epsilon_of<TypeParam>() + 4 * epsilon_of<A>()));
        }
      }
      EXPECT_LT(p.factor[2], 1);
    }
  }
}

TYPED_TEST(RmsNorm, SameBitsForAnyNumberOfThreads) {
  for (Isa isa : isas()) {
    for (RmsNormKind kind : kKinds) {
      Threads serial(1);
      Problem<TypeParam> one(kind, 1031, 60);
      one.run(isa);
      for (int n : kThreadCounts) {
        Threads scope(n);
        Problem<TypeParam> p(kind, 1031, 60);
        p.run(isa);
        EXPECT_TRUE(same_bits(p.y, one.y) && same_bits(p.dx, one.dx) &&
                    same_bits(p.dweight, one.dweight))
            << n << " threads";
      }
    }
  }
}

// Kernels add to dweight, add dx_add to dx, skip a null dx or dweight, and may work in place.
TYPED_TEST(RmsNorm, AccumulatesRunsInPlaceAndSkipsNullOutputs) {
  using T = TypeParam;
  for (Isa isa : isas()) {
    for (RmsNormKind kind : kKinds) {
      Problem<T> plain(kind, 9, 37), other(kind, 9, 37);
      plain.run(isa);
      run_on(isa, other.forward());
      other.dx = normal_values<T>(9 * 37, 6);
      const Doubles added = doubles(other.dx);
      std::fill(other.dweight.begin(), other.dweight.end(), 2);
      RmsNormBackward args = other.backward();
      args.dx_add = other.dx.data();
      run_on(isa, args);
      for (std::size_t i = 0; i < added.size(); ++i) {
        const double want = as_double(plain.dx[i]) + added[i];
        EXPECT_NEAR(as_double(other.dx[i]), want, 4 * epsilon_of<T>() * (1 + std::fabs(want)));
      }
      for (std::size_t c = 0; c < plain.dweight.size(); ++c) {
        EXPECT_NEAR(other.dweight[c], 2 + plain.dweight[c], 64 * epsilon_of<AccumulatorOf<T>>());
      }
      const auto kept = other.dx;
      args = other.backward();
      args.dx = nullptr;
      std::fill(other.dweight.begin(), other.dweight.end(), 0);
      run_on(isa, args);
      EXPECT_TRUE(same_bits(other.dx, kept) && same_bits(other.dweight, plain.dweight));
      args.dweight = nullptr;
      args.dx = other.dy.data();
      run_on(isa, args);
      EXPECT_TRUE(same_bits(other.dy, plain.dx));
      RmsNormForward forward = other.forward();
      forward.y = other.x.data();
      run_on(isa, forward);
      EXPECT_TRUE(same_bits(other.x, plain.y));
    }
  }
}

TEST(RmsNormErrors, NaNStaysInItsRowAndRejectsIntegers) {
  for (Isa isa : isas()) {
    for (RmsNormKind kind : kKinds) {
      Problem<float> p(kind, 6, 37);
      p.x[2 * 37 + 5] = NAN;
      p.run(isa);
      for (std::size_t i = 0; i < p.x.size(); ++i) {
        EXPECT_EQ(std::isnan(p.y[i]), i / 37 == 2);
        EXPECT_EQ(std::isnan(p.dx[i]), i / 37 == 2);
      }
    }
  }
  Problem<float> p(RmsNormKind::kRms, 2, 4);
  RmsNormForward args = p.forward();
  args.dtype = DType::kInt64;
  EXPECT_THROW(run(cpu_queue(), args), Error);
}

}  // namespace
}  // namespace dtn::test
