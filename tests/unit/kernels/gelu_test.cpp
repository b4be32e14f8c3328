#include <gtest/gtest.h>

#include <limits>

#include "kernels/gemm/linear.h"
#include "kernels/gemm/linear_epilogue.h"
#include "kernels/pointwise/activation.h"
#include "unit/kernels/each_isa.h"
#include "unit/kernels/product_oracle.h"

DTN_RUN_ON_EACH_ISA(GeluForward)
DTN_RUN_ON_EACH_ISA(GeluBackward)
DTN_RUN_ON_EACH_ISA(LinearEpilogue)
DTN_RUN_ON_EACH_ISA(LinearGeluGradient)

namespace dtn::testing {
namespace {

// x from -12 to 12 in equal steps, and more values near 0.
Array scan(DType dtype) {
  constexpr std::int64_t kCount = 240001;
  Array x(dtype, kCount + 200);
  for (std::int64_t i = 0; i < kCount; ++i) x.set(i, -12 + 24.0 * i / (kCount - 1));
  for (std::int64_t i = 0; i < 200; ++i) {
    x.set(kCount + i, (i % 2 ? -1 : 1) * std::pow(10.0, -0.1 * static_cast<double>(i)));
  }
  return x;
}

// float32: four epsilons, plus one near x^2 = 140, where the exponent itself is inexact. bfloat16:
// the rounding of the result, plus an eighth. float64: erfc and exp get an argument that is rounded
// twice, which costs up to x^2 epsilons, and have their own errors.
double allowed(DType dtype, double x, double value, double scale) {
  double epsilon = epsilon_of(dtype);
  switch (dtype) {
    case DType::kFloat64: return (4 + 1.5 * x * x) * epsilon * scale;
    case DType::kBFloat16: return epsilon / 2 * (std::abs(value) + scale / 8);
    default: return (4 + x * x / 140) * epsilon * scale;
  }
}

class GeluTest : public ::testing::TestWithParam<DType> {};

TEST_P(GeluTest, ForwardIsRelativelyAccurate) {
  Array x = scan(GetParam()), y(GetParam(), x.count());
  for (Isa isa : test::isas()) {
    run_on(isa, GeluForward{GetParam(), x.count(), x.data(), y.data()});
    for (std::int64_t i = 0; i < x.count(); ++i) {
      double want = exact_gelu(x.get(i)), scale = std::max(std::abs(want), 1e-35);
      ASSERT_NEAR(y.get(i), want, allowed(GetParam(), x.get(i), want, scale))
          << name_of(isa) << " x " << x.get(i);
    }
  }
}

TEST_P(GeluTest, BackwardIsRelativelyAccurate) {
  Array x = scan(GetParam()), dy(GetParam(), x.count()), dx(GetParam(), x.count());
  dy.fill(1);
  for (Isa isa : test::isas()) {
    run_on(isa, GeluBackward{GetParam(), x.count(), x.data(), dy.data(), dx.data()});
    for (std::int64_t i = 0; i < x.count(); ++i) {
      double at = x.get(i), want = exact_gelu_slope(at);
      // The two terms cancel near -0.75, so the error is relative to the terms.
      double scale =
          0.5 * std::erfc(-at / std::sqrt(2.0)) + std::abs(at) * std::exp(-0.5 * at * at);
      ASSERT_NEAR(dx.get(i), want, allowed(GetParam(), at, want, std::max(scale, 1e-35)))
          << name_of(isa) << " x " << at;
    }
  }
}

// x / (1 + e^-u) and its derivative in float64, with the sizes of the terms.
struct TanhForm {
  double u, value, slope, slope_scale;

  explicit TanhForm(double x) : u(kGeluTanhScale * (x + kGeluTanhCubic * x * x * x)) {
    const double s = 1 / (1 + std::exp(-u)), rest = 1 / (1 + std::exp(u));
    const double other = x * kGeluTanhScale * (1 + 3 * kGeluTanhCubic * x * x) * rest;
    value = x * s;
    slope = s * (1 + other);
    slope_scale = s * (1 + std::abs(other));
  }
};

// The rounding of u costs |u| epsilons of the exponential, which is no smaller than at x = -10.
double allowed_of_tanh(DType dtype, double u, double value, double scale) {
  constexpr double kLeast = 3e-36;  // the slope there
  if (dtype == DType::kBFloat16) return allowed(dtype, 0, value, scale) + kLeast;
  return (6 + 2 * std::abs(u)) * epsilon_of(dtype) * scale + kLeast;
}

TEST_P(GeluTest, TanhFormInProductsIsRelativelyAccurate) {
  const DType dtype = GetParam(), accumulator = accumulator_of(dtype);
  const Array x = scan(dtype);
  const std::int64_t count = x.count();
  Array product(accumulator, count), ones(accumulator, count);
  for (std::int64_t i = 0; i < count; ++i) product.set(i, x.get(i));
  ones.fill(1);
  Array y(dtype, count), z(dtype, count), h(dtype, count), dx(dtype, count);
  for (Isa isa : test::isas()) {
    run_on(isa, LinearEpilogue{dtype, 1, count, product.data(), count, nullptr, true, true,
                               z.data(), nullptr, nullptr, 0, 1, y.data(), count});
    run_on(isa, LinearGeluGradient{dtype, 1, count, ones.data(), count, true, z.data(), h.data(),
                                   dx.data(), count});
    for (std::int64_t i = 0; i < count; ++i) {
      const TanhForm want(x.get(i));
      const double scale = std::max(std::abs(want.value), 1e-35);
      ASSERT_NEAR(y.get(i), want.value, allowed_of_tanh(dtype, want.u, want.value, scale))
          << name_of(isa) << " x " << x.get(i);
      ASSERT_EQ(h.get(i), y.get(i)) << "the backward pass computes the same activation";
      const double slope_scale = std::max(want.slope_scale, 1e-35);
      ASSERT_NEAR(dx.get(i), want.slope, allowed_of_tanh(dtype, want.u, want.slope, slope_scale))
          << name_of(isa) << " x " << x.get(i);
    }
  }
}

TEST_P(GeluTest, TanhFormBeyondTails) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const DType dtype = GetParam(), accumulator = accumulator_of(dtype);
  const double values[] = {kInfinity, -kInfinity, std::nan(""), 1e30, -1e30};
  for (Isa isa : test::isas()) {
    SCOPED_TRACE(name_of(isa));
    Array product(accumulator, 5), twos(accumulator, 5);
    for (int i = 0; i < 5; ++i) product.set(i, values[i]);
    twos.fill(2);
    Array y(dtype, 5), z(dtype, 5), dx(dtype, 5);
    run_on(isa, LinearEpilogue{dtype, 1, 5, product.data(), 5, nullptr, true, true, z.data(),
                               nullptr, nullptr, 0, 1, y.data(), 5});
    run_on(isa,
           LinearGeluGradient{dtype, 1, 5, twos.data(), 5, true, z.data(), nullptr, dx.data(), 5});
    EXPECT_EQ(y.get(0), kInfinity);
    EXPECT_NEAR(y.get(1), 0, 1e-30);
    EXPECT_TRUE(std::isnan(y.get(2)));
    EXPECT_EQ(y.get(3), z.get(3));
    EXPECT_NEAR(y.get(4), 0, 1e-30);
    EXPECT_NEAR(dx.get(0), 2, 1e-6);
    EXPECT_NEAR(dx.get(1), 0, 1e-30);
    EXPECT_TRUE(std::isnan(dx.get(2)));
    EXPECT_NEAR(dx.get(3), 2, 1e-6);
    EXPECT_NEAR(dx.get(4), 0, 1e-30);
  }
}

TEST_P(GeluTest, ValuesBeyondTails) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double values[] = {0, kInfinity, -kInfinity, std::nan(""), 1e30, -1e30};
  for (Isa isa : test::isas()) {
    SCOPED_TRACE(name_of(isa));
    Array x(GetParam(), 6), y(GetParam(), 6), dy(GetParam(), 6), dx(GetParam(), 6);
    for (int i = 0; i < 6; ++i) x.set(i, values[i]);
    dy.fill(2);
    run_on(isa, GeluForward{GetParam(), 6, x.data(), y.data()});
    run_on(isa, GeluBackward{GetParam(), 6, x.data(), dy.data(), dx.data()});
    EXPECT_EQ(y.get(0), 0);
    EXPECT_EQ(y.get(1), kInfinity);
    EXPECT_EQ(y.get(2), 0);
    EXPECT_TRUE(std::isnan(y.get(3)));
    EXPECT_EQ(y.get(4), x.get(4));
    EXPECT_EQ(y.get(5), 0);
    EXPECT_NEAR(dx.get(0), 1, 1e-6);
    EXPECT_NEAR(dx.get(1), 2, 1e-6);
    EXPECT_NEAR(dx.get(2), 0, 1e-30);
    EXPECT_TRUE(std::isnan(dx.get(3)));
    EXPECT_NEAR(dx.get(4), 2, 1e-6);
    EXPECT_NEAR(dx.get(5), 0, 1e-30);
  }
}

TEST_P(GeluTest, GradientRunsInPlace) {
  Array x = Array(GetParam(), 1003).randomize(1), dy = Array(GetParam(), 1003).randomize(2);
  Array apart(GetParam(), 1003);
  run(cpu_queue(), GeluBackward{GetParam(), 1003, x.data(), dy.data(), apart.data()});
  run(cpu_queue(), GeluBackward{GetParam(), 1003, x.data(), dy.data(), dy.data()});
  EXPECT_TRUE(dy.same_bits(apart));
}

INSTANTIATE_TEST_SUITE_P(Types, GeluTest,
                         ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat64),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace dtn::testing
