#include "kernels/norm/power_norm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dtn/core/check.h"
#include "unit/kernels/errors.h"

DTN_RUN_ON_EACH_ISA(PowerNormSquares)
DTN_RUN_ON_EACH_ISA(PowerNormForward)
DTN_RUN_ON_EACH_ISA(PowerNormBackward)
DTN_RUN_ON_EACH_ISA(PowerNormFeedback)

namespace dtn::test {
namespace {

// Inputs and outputs of the four kernels. `shift`: misalignment of the activations, in elements.
template <class T>
struct Problem {
  using A = AccumulatorOf<T>;
  std::int64_t rows, channels, groups, shift = 0;
  bool training = true;
  std::int64_t warmup = 3;
  std::vector<T> x, y, dy, dx;
  std::vector<A> weight, bias, running_phi, next_phi, ema_gz, next_ema_gz, iterations{2}, next{2};
  std::vector<A> squares, rpsi, power, dweight, dbias, dot;

  Problem(std::int64_t r, std::int64_t c, std::int64_t g, double x_mean = 0, std::int64_t s = 0)
      : rows(r),
        channels(c),
        groups(g),
        shift(s),
        x(normal_values<T>(r * c + s, 1, x_mean)),
        y(x.size()),
        dy(normal_values<T>(r * c + s, 2)),
        dx(x.size()),
        weight(normal_values<A>(c, 3, 1, 0.3)),
        bias(normal_values<A>(c, 4)),
        running_phi(normal_values<A>(c, 5, 1, 0.1)),
        next_phi(normal_values<A>(c, 6, 1, 0.1)),
        ema_gz(normal_values<A>(c, 7)),
        next_ema_gz(normal_values<A>(c, 8)) {
    for (auto* v : {&squares, &rpsi, &power, &dweight, &dbias, &dot}) v->resize(c);
  }

  PowerNormShape shape() const { return {DTypeOf<T>::value, rows, channels, groups, 1e-5}; }
  PowerNormForward forward() {
    PowerNormForward a{};
    a.shape = shape();
    a.x = x.data() + shift;
    a.weight = weight.data();
    a.bias = bias.data();
    a.running_phi = running_phi.data();
    a.y = y.data() + shift;
    a.rpsi = rpsi.data();
    if (!training) return a;
    a.squares = squares.data();
    a.count = rows;
    a.iterations = iterations.data();
    a.warmup = warmup;
    a.alpha = 0.9;
    a.power = power.data();
    a.next_running_phi = next_phi.data();
    a.next_iterations = next.data();
    return a;
  }
  PowerNormBackward backward() {
    PowerNormBackward a{};
    a.shape = shape();
    a.x = x.data() + shift;
    a.weight = weight.data();
    a.rpsi = rpsi.data();
    a.ema_gz = training ? ema_gz.data() : nullptr;
    a.alpha = 0.8;
    a.dy = dy.data() + shift;
    a.dx = dx.data() + shift;
    a.dweight = dweight.data();
    a.dbias = dbias.data();
    a.dot = dot.data();
    return a;
  }
  void run(Isa isa) {
    if (training) run_on(isa, PowerNormSquares{shape(), x.data() + shift, squares.data()});
    run_on(isa, forward());
    run_on(isa, backward());
    if (!training) return;
    run_on(isa, PowerNormFeedback{DTypeOf<A>::value, channels, rows, 0.8, weight.data(), dot.data(),
                                  power.data(), next_ema_gz.data()});
  }
};

struct Expected {
  Doubles y, dx, dweight, dbias, next_phi, next_ema_gz;
  double dx_terms = 0;  // largest term of the difference that gives dx
};

// Results from the formulas, in float64. Call before the kernels change the running values.
template <class T>
Expected reference(const Problem<T>& p) {
  const std::size_t R = p.rows, C = p.channels, D = p.channels / p.groups;
  auto zeros = [](std::size_t n) { return Doubles(n); };
  Expected e{zeros(p.x.size()), zeros(p.x.size()),   zeros(C),
             zeros(C),          doubles(p.next_phi), doubles(p.next_ema_gz)};
  Doubles s(R * C), z(R * C), d(R * C);
  auto x = [&](std::size_t i) { return as_double(p.x[i + p.shift]); };
  auto dy = [&](std::size_t i) { return as_double(p.dy[i + p.shift]); };
  for (std::size_t first = 0; first < R * C; first += D) {
    double squares = 0;
    for (std::size_t i = first; i < first + D; ++i) squares += x(i) * x(i) / D;
    for (std::size_t i = first; i < first + D; ++i) s[i] = 1 / std::sqrt(squares + 1e-5);
  }
  for (std::size_t c = 0; c < C; ++c) {
    double phi = 0, dot = 0, power = 0;
    for (std::size_t i = c; i < R * C; i += C) phi += std::pow(x(i) * s[i], 2) / R;
    const bool of_batch = p.training && p.iterations[0] + 1 <= p.warmup;
    const double psi = std::sqrt((of_batch ? phi : as_double(p.running_phi[c])) + 1e-5);
    const double nu = p.training ? 0.2 * p.ema_gz[c] : 0;
    for (std::size_t i = c; i < R * C; i += C) {
      z[i] = x(i) * s[i] / psi;
      d[i] = (dy(i) * p.weight[c] - nu * z[i]) / psi;
      e.y[i + p.shift] = p.weight[c] * z[i] + p.bias[c];
      dot += dy(i) * z[i];
      e.dbias[c] += dy(i);
      power += z[i] * z[i] / R;
    }
    e.dweight[c] = dot;
    if (!p.training) continue;
    const double n = p.iterations[0] + 1;
    if (n < p.warmup) e.next_phi[c] += (phi - e.next_phi[c]) / n;
    e.next_phi[c] = 0.9 * e.next_phi[c] + 0.1 * phi;
    e.next_ema_gz[c] += p.weight[c] * dot / R - 0.2 * p.next_ema_gz[c] * power;
  }
  for (std::size_t first = 0; first < R * C; first += D) {
    double mean = 0;
    for (std::size_t i = first; i < first + D; ++i) mean += d[i] * x(i) * s[i] / D;
    for (std::size_t i = first; i < first + D; ++i) {
      e.dx[i + p.shift] = s[i] * (d[i] - x(i) * s[i] * mean);
      e.dx_terms = std::max({e.dx_terms, std::fabs(s[i] * d[i]), std::fabs(s[i] * mean)});
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
void check(Problem<T>&& p, Isa isa) {
  SCOPED_TRACE(cat(name_of(isa), " ", name_of(DTypeOf<T>::value), " ", p.rows, " x ", p.channels,
                   ", ", p.groups, " groups", p.training ? " training" : "", p.warmup));
  const Expected expected = reference(p);
  p.run(isa);
  const std::int64_t terms = p.rows + p.channels;
  EXPECT_LE(error(doubles(p.y), expected.y), tolerance<T>(terms, true));
  EXPECT_LE(error(doubles(p.dx), expected.dx, expected.dx_terms), tolerance<T>(terms, true));
  // The terms of these sums have magnitude 1.
  EXPECT_LE(error(doubles(p.dweight), expected.dweight, 1), tolerance<T>(terms, false));
  EXPECT_LE(error(doubles(p.dbias), expected.dbias, 1), tolerance<T>(terms, false));
  EXPECT_LE(error(doubles(p.next_phi), expected.next_phi), tolerance<T>(terms, false));
  EXPECT_LE(error(doubles(p.next_ema_gz), expected.next_ema_gz, 1), tolerance<T>(terms, false));
  EXPECT_EQ(p.next[0], p.training ? p.iterations[0] + 1 : 2);
}

using Types = ::testing::Types<float, bfloat16, double>;
template <class T>
class PowerNorm : public ::testing::Test {};
TYPED_TEST_SUITE(PowerNorm, Types);

TYPED_TEST(PowerNorm, MatchesFormulas) {
  struct {
    std::int64_t rows, channels, groups, shift;
  } const shapes[] = {{1, 12, 3, 0},    {3, 7, 7, 1},      {3, 7, 1, 0},     {197, 64, 2, 1},
                      {196, 100, 4, 0}, {1031, 77, 11, 1}, {197, 432, 9, 0}, {9, 432, 1, 0}};
  for (Isa isa : isas()) {
    for (const auto& s : shapes) {
      // Evaluation; before, at and after the end of the warmup.
      for (int kind = 0; kind < 4; ++kind) {
        Problem<TypeParam> p(s.rows, s.channels, s.groups, 0, s.shift);
        p.training = kind > 0;
        p.warmup = kind == 1 ? 9 : kind == 2 ? 3 : 2;
        check(std::move(p), isa);
      }
    }
    check(Problem<TypeParam>(197, 432, 9, 1e3), isa);
  }
}

TYPED_TEST(PowerNorm, ZeroWeightConstantRowsAndZeros) {
  for (Isa isa : isas()) {
    Problem<TypeParam> zero(19, 50, 5), constant(19, 50, 5);
    std::fill(zero.weight.begin(), zero.weight.end(), 0);
    check(std::move(zero), isa);
    std::fill_n(constant.x.begin(), 10 * 50, static_cast<TypeParam>(3.0f));
    std::fill_n(constant.x.begin() + 10 * 50, 2 * 50, static_cast<TypeParam>(0.0f));
    check(std::move(constant), isa);
  }
}

TYPED_TEST(PowerNorm, SameBitsForAnyNumberOfThreads) {
  for (Isa isa : isas()) {
    Threads serial(1);
    Problem<TypeParam> one(1031, 60, 6);
    one.run(isa);
    for (int n : kThreadCounts) {
      Threads scope(n);
      Problem<TypeParam> p(1031, 60, 6);
      p.run(isa);
      EXPECT_TRUE(same_bits(p.y, one.y) && same_bits(p.dx, one.dx) &&
                  same_bits(p.dweight, one.dweight) && same_bits(p.dbias, one.dbias) &&
                  same_bits(p.next_phi, one.next_phi) && same_bits(p.next_ema_gz, one.next_ema_gz))
          << n << " threads";
    }
  }
}

// Kernels add to parameter gradients, add dx_add to dx, skip null outputs, may work in place.
TYPED_TEST(PowerNorm, AccumulatesRunsInPlaceAndSkipsNullOutputs) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  for (Isa isa : isas()) {
    Problem<T> plain(11, 37, 1), other(11, 37, 1);
    plain.run(isa);
    other.run(isa);
    const std::vector<T> residual = normal_values<T>(11 * 37, 9);
    other.dx = residual;
    PowerNormBackward args = other.backward();
    args.dx_add = other.dx.data();
    run_on(isa, args);
    for (std::size_t i = 0; i < residual.size(); ++i) {
      const double want = as_double(plain.dx[i]) + as_double(residual[i]);
      EXPECT_NEAR(as_double(other.dx[i]), want, 4 * epsilon_of<T>() * (1 + std::fabs(want)));
    }
    EXPECT_TRUE(same_bits(other.dot, plain.dot));
    for (std::size_t c = 0; c < 37; ++c) {
      EXPECT_NEAR(other.dweight[c], 2 * plain.dweight[c], 64 * epsilon_of<A>());
      EXPECT_NEAR(other.dbias[c], 2 * plain.dbias[c], 64 * epsilon_of<A>());
    }
    const auto kept = other.dx;
    args.dx = args.dweight = args.dot = nullptr;
    std::fill(other.dbias.begin(), other.dbias.end(), 0);
    run_on(isa, args);
    EXPECT_TRUE(same_bits(other.dx, kept) && same_bits(other.dbias, plain.dbias));
    args = other.backward();
    args.dx = other.dy.data();
    run_on(isa, args);
    EXPECT_TRUE(same_bits(other.dy, plain.dx));
    // A repeated forward pass changes no running value, and y may alias x.
    const auto phi = other.next_phi;
    PowerNormForward forward = other.forward();
    forward.y = other.x.data();
    forward.next_running_phi = forward.next_iterations = nullptr;
    run_on(isa, forward);
    EXPECT_TRUE(same_bits(other.x, plain.y) && same_bits(other.next_phi, phi));
  }
}

TEST(PowerNormErrors, NaNStaysInItsRowWithRunningStatistics) {
  for (Isa isa : isas()) {
    Problem<float> p(6, 36, 3);
    p.training = false;
    p.x[2 * 36 + 5] = NAN;
    p.run(isa);
    for (std::size_t i = 0; i < p.x.size(); ++i) {
      EXPECT_EQ(std::isnan(p.y[i]), i / 12 == 6);
      EXPECT_EQ(std::isnan(p.dx[i]), i / 12 == 6);
    }
  }
  Problem<float> p(2, 4, 2);
  PowerNormForward args = p.forward();
  args.shape.dtype = DType::kInt64;
  EXPECT_THROW(run(cpu_queue(), args), Error);
}

}  // namespace
}  // namespace dtn::test
