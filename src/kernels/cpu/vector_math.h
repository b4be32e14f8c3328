// Elementary functions on the vectors of simd.h that only a few kernels need. float32: within a few
// units in the last place; float64: the library functions, lane by lane.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/pointwise/gelu.h"

namespace dtn::DTN_ISA {

template <class V>
using LaneOf = std::remove_cvref_t<decltype(V{}[0])>;

template <class V, class F>
inline V each_lane(V v, F&& f) {
  V r;
  for (unsigned i = 0; i < sizeof(V) / sizeof(v[0]); ++i) r[i] = f(v[i]);
  return r;
}

// Near 0 an odd polynomial (Cephes) with a relative error at float32 level. Further out
// 1 - 2 / (e^2|x| + 1), which loses no digits there.
inline VecF tanh(VecF x) {
  const VecF z = x * x;
  VecF p = broadcast(-5.70498872745e-3f);
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const VecF near = p * z * x + x;
  const VecF size = x < 0.0f ? -x : x;
  VecF far = 1.0f - 2.0f / (exp(2.0f * size) + 1.0f);
  far = x < 0.0f ? -far : far;
  return size < 0.625f ? near : far;
}
inline Vec<double> tanh(Vec<double> x) {
  return each_lane(x, [](double v) { return std::tanh(v); });
}

// x = 2^n m with m in [sqrt(1/2), sqrt(2)), and log m = 2 atanh(s), s = (m - 1) / (m + 1), by its
// series. The first omitted term is 4e-9 of the sum.
inline VecF log(VecF x) {
  constexpr float kSmallestNormal = 1.17549435e-38f;
  const VecF lifted = x < kSmallestNormal ? x * 8388608.0f : x;  // 2^23
  const VecI bits = (VecI)lifted;
  const VecI n = (bits - 0x3f3504f3) >> 23;
  const VecF m = (VecF)(bits - (n << 23));
  VecF exponent = __builtin_convertvector(n, VecF);
  exponent = x < kSmallestNormal ? exponent - 23.0f : exponent;
  const VecF s = (m - 1.0f) / (m + 1.0f), z = s * s;
  VecF p = broadcast(2.0f / 9);
  p = p * z + 2.0f / 7;
  p = p * z + 2.0f / 5;
  p = p * z + 2.0f / 3;
  p = p * z * s + 2.0f * s;
  VecF result = exponent * 0.693145751953125f + (exponent * 1.42860682030941723e-6f + p);
  const VecF infinity = broadcast(__builtin_inff());
  result = x == infinity ? infinity : result;
  result = x == 0.0f ? -infinity : result;
  return x >= 0.0f ? result : broadcast(__builtin_nanf(""));
}
inline Vec<double> log(Vec<double> x) {
  return each_lane(x, [](double v) { return std::log(v); });
}

// Returns log(1 + e) for 0 <= e <= 1, from the series
//    log((1 + s) / (1 - s)) = 2 (s + s^3 / 3 + ...), s = e / (2 + e)
// It is accurate to the last digits for any e. The first omitted term is below 2^-26 (float32) or
// 2^-55 (float64) of the sum.
template <class V>
inline V log_1_plus(V e) {
  using A = LaneOf<V>;
  constexpr int kTerms = std::is_same_v<A, float> ? 7 : 16;
  const V s = e / (e + A(2)), square = s * s;
  V sum = broadcast(A(2) / (2 * kTerms - 1));
  for (int n = 2 * kTerms - 3; n > 0; n -= 2) sum = sum * square + A(2) / static_cast<A>(n);
  return sum * s;
}

// Up to |x| = 1 the Taylor series, further out 1 - 2 Phi(-sqrt(2) |x|).
inline VecF erf(VecF x) {
  const VecF size = x < 0.0f ? -x : x, z = x * x;
  VecF p = broadcast(1.0f / 76204800);  // 1 / (n! (2 n + 1)), n = 10 .. 0, alternating signs
  p = p * z - 1.0f / 6894720;
  p = p * z + 1.0f / 685440;
  p = p * z - 1.0f / 75600;
  p = p * z + 1.0f / 9360;
  p = p * z - 1.0f / 1320;
  p = p * z + 1.0f / 216;
  p = p * z - 1.0f / 42;
  p = p * z + 1.0f / 10;
  p = p * z - 1.0f / 3;
  p = p * z + 1.0f;
  const VecF near = 1.1283791670955126f * x * p;
  VecF far = 1.0f - 2.0f * normal_terms(-1.4142135623730951f * size).cdf;
  far = x < 0.0f ? -far : far;
  return size <= 1.0f ? near : far;
}
inline Vec<double> erf(Vec<double> x) {
  return each_lane(x, [](double v) { return std::erf(v); });
}

template <class V>
inline V cos(V x) {
  return each_lane(x, [](auto v) { return std::cos(v); });
}
template <class V>
inline V sin(V x) {
  return each_lane(x, [](auto v) { return std::sin(v); });
}
template <class V, class S>
inline V pow(V x, S exponent) {
  return each_lane(x, [=](auto v) { return std::pow(v, exponent); });
}

}  // namespace dtn::DTN_ISA
