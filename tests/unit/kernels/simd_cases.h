// Checks of kernels/cpu/simd.h for the instruction set of the including file.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

// Copies n of 200 elements through for_each_vector: it copies all n and writes nothing else.
template <class T>
void check_partial_access() {
  using A = AccumulatorOf<T>;
  std::vector<T> x, y;
  for (int i = 0; i < 200; ++i) x.push_back(static_cast<T>(static_cast<A>(i + 1)));
  const T guard = static_cast<T>(static_cast<A>(-5));
  for (int n = 0; n <= 150; ++n) {
    y.assign(200, guard);
    for_each_vector<A>(n, [&](std::int64_t i, auto count) {
      store_n(y.data() + i, load_n(x.data() + i, count), count);
    });
    EXPECT_EQ(std::memcmp(y.data(), x.data(), static_cast<std::size_t>(n) * sizeof(T)), 0) << n;
    for (int i = n; i < 200; ++i) {
      ASSERT_EQ(std::memcmp(&y[i], &guard, sizeof(T)), 0) << "n " << n << " wrote " << i;
    }
  }
  for (int count = 1; count < kLanes<A>; ++count) {
    auto v = load_partial(x.data(), count);
    for (int i = 0; i < kLanes<A>; ++i) ASSERT_EQ(v[i], i < count ? A(i + 1) : A(0)) << count;
  }
}

// Every upper half of a float, with lower halves around the tie, rounds as bfloat16(float) does.
inline void check_bfloat16_store() {
  constexpr int lanes = kLanes<float>;
  const std::uint32_t lows[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  std::int64_t wrong = 0;
  for (std::uint32_t high = 0; high < 0x10000; high += lanes) {
    for (std::uint32_t low : lows) {
      float x[lanes];
      bfloat16 y[lanes];
      for (std::uint32_t i = 0; i < lanes; ++i) {
        std::uint32_t u = (high + i) << 16 | low;
        std::memcpy(&x[i], &u, sizeof u);
      }
      store(y, load(x));
      for (int i = 0; i < lanes; ++i) {
        bool tiny = std::abs(x[i]) < std::numeric_limits<float>::min();
        bool zero = (y[i].bits & 0x7fff) == 0;  // AVX-512 flushes denormals
        wrong += y[i].bits != bfloat16(x[i]).bits && !(tiny && zero);
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

// Every bfloat16, including denormals, converts exactly.
inline void check_bfloat16_load() {
  constexpr int lanes = kLanes<float>;
  for (std::uint32_t first = 0; first < 0x10000; first += lanes) {
    bfloat16 h[lanes];
    float x[lanes];
    for (std::uint32_t i = 0; i < lanes; ++i) h[i].bits = static_cast<std::uint16_t>(first + i);
    store(x, load(h));
    for (int i = 0; i < lanes; ++i) {
      float expected = static_cast<float>(h[i]);
      ASSERT_EQ(std::memcmp(&x[i], &expected, sizeof expected), 0) << first + i;
    }
  }
}

template <class T>
void check_reductions() {
  constexpr int lanes = kLanes<T>;
  T x[lanes];
  for (int at = 0; at < lanes; ++at) {
    T sum = 0;
    for (int i = 0; i < lanes; ++i) sum += x[i] = static_cast<T>(i == at ? 100 : -i);
    EXPECT_EQ(reduce_max(load(x)), T(100)) << at;
    EXPECT_EQ(reduce_add(load(x)), sum) << at;  // small integers: exact in any order
  }
}

template <class T>
void check_max_min_of_nan() {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  Vec<T> one = broadcast(T(1)), two = broadcast(T(2)), not_a_number = broadcast(nan);
  EXPECT_EQ(max(one, two)[0], T(2));
  EXPECT_EQ(min(one, two)[0], T(1));
  EXPECT_EQ(max(not_a_number, one)[0], T(1));  // b if a or b is NaN
  EXPECT_TRUE(std::isnan(max(one, not_a_number)[0]));
  EXPECT_EQ(min(not_a_number, one)[0], T(1));
  EXPECT_TRUE(std::isnan(min(one, not_a_number)[0]));
}

// Largest error of F against its exact() over [first, last), in units in the last place.
template <class F>
double worst_ulp(float first, float last, float factor, float step) {
  double worst = 0;
  for (float x = first; x < last; x = x * factor + step) {
    double e = F::exact(static_cast<double>(x)), got = F::apply(broadcast(x))[0];
    worst = std::max(worst, std::abs(got - e) / std::ldexp(1.0, std::ilogb(e) - 23));
  }
  return worst;
}

struct Exp {
  static VecF apply(VecF v) { return exp(v); }
  static double exact(double x) { return std::exp(x); }
};
struct Sqrt {
  static VecF apply(VecF v) { return sqrt(v); }
  static double exact(double x) { return std::sqrt(x); }
};
struct InverseSqrt {
  static VecF apply(VecF v) { return rsqrt(v); }
  static double exact(double x) { return 1 / std::sqrt(x); }
};

inline void check_exp() {
  EXPECT_LE(worst_ulp<Exp>(-87.3f, 88.37f, 1, 0.00137f), 2.0);
  EXPECT_LE(worst_ulp<Exp>(-0.4f, 0.4f, 1, 0.000013f), 2.0);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp(VecF{})[0], 1.0f);
  EXPECT_EQ(exp(broadcast(-inf))[0], 0.0f);
  EXPECT_EQ(exp(broadcast(-1000.0f))[0], 0.0f);
  EXPECT_GT(exp(broadcast(inf))[0], 2e38f);
  EXPECT_GT(exp(broadcast(1000.0f))[0], 2e38f);
  EXPECT_TRUE(std::isnan(exp(broadcast(std::numeric_limits<float>::quiet_NaN()))[0]));
  EXPECT_NEAR(exp(broadcast(1.0))[0], std::exp(1.0), 1e-15);
}

inline void check_roots() {
  EXPECT_LE(worst_ulp<Sqrt>(1e-30f, 1e30f, 1.00037f, 0), 0.5);
  EXPECT_LE(worst_ulp<InverseSqrt>(1e-30f, 1e30f, 1.00037f, 0), 2.0);
  EXPECT_EQ(sqrt(broadcast(2.0))[0], std::sqrt(2.0));
  EXPECT_NEAR(rsqrt(broadcast(2.0))[0], 1 / std::sqrt(2.0), 1e-15);
}

}  // namespace dtn::DTN_ISA

#define DTN_SIMD_TESTS(Suite, machine_has_it)                            \
  class Suite : public ::testing::Test {                                 \
    void SetUp() override {                                              \
      if (!(machine_has_it)) GTEST_SKIP() << "not on this machine";      \
    }                                                                    \
  };                                                                     \
  TEST_F(Suite, PartialAccess) {                                         \
    dtn::DTN_ISA::check_partial_access<float>();                         \
    dtn::DTN_ISA::check_partial_access<double>();                        \
    dtn::DTN_ISA::check_partial_access<dtn::bfloat16>();                 \
  }                                                                      \
  TEST_F(Suite, BFloat16Store) { dtn::DTN_ISA::check_bfloat16_store(); } \
  TEST_F(Suite, BFloat16Load) { dtn::DTN_ISA::check_bfloat16_load(); }   \
  TEST_F(Suite, Reductions) {                                            \
    dtn::DTN_ISA::check_reductions<float>();                             \
    dtn::DTN_ISA::check_reductions<double>();                            \
  }                                                                      \
  TEST_F(Suite, MaxMinOfNaN) {                                           \
    dtn::DTN_ISA::check_max_min_of_nan<float>();                         \
    dtn::DTN_ISA::check_max_min_of_nan<double>();                        \
  }                                                                      \
  TEST_F(Suite, Exp) { dtn::DTN_ISA::check_exp(); }                      \
  TEST_F(Suite, Roots) { dtn::DTN_ISA::check_roots(); }
