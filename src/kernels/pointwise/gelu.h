// The exact GELU, x Phi(x), and its derivative Phi(x) + x phi(x), on the vectors of simd.h. Phi and
// phi are the distribution function and the density of the normal distribution. In float32,
//    Phi(-a) = exp(-a^2 / 2) R(t), t = 1 / (1 + p a), a >= 0
// R is a polynomial fitted to erfcx (Hastings' form of the tail; relative error of the fit 1.1e-8
// on [0, 13.3]). The exponent has two parts, so that the tail keeps its relative accuracy.
#pragma once

#include <cmath>

#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

template <class V>
struct NormalTerms {
  V cdf;      // Phi(x)
  V density;  // phi(x)
};

// Beyond this |x| the tail is below the smallest normal float32.
inline constexpr float kNormalTailEnd = 13.2f;

// e^(high + low) for high in [-87.2, 0] and tiny low.
inline VecF exp_of_sum(VecF high, VecF low) {
  VecF n = high * 1.44269504088896341f + 12582912.0f;  // rounds to integer in the low mantissa bits
  VecI exponent = (VecI)n << 23;
  n = n - 12582912.0f;
  VecF r = high - n * 0.693145751953125f;
  r = r - n * 1.42860682030941723e-6f + low;
  VecF p = broadcast(0.0013814597774072339f);  // (e^r - 1 - r) / r^2, |r| <= ln 2 / 2, to 3e-9
  p = p * r + 0.008368716955810014f;
  p = p * r + 0.041668388063543366f;
  p = p * r + 0.166665206308912f;
  p = p * r + 0.4999999344770573f;
  p = p * r * r + r + 1.0f;
  return (VecF)((VecI)p + exponent);
}

inline NormalTerms<VecF> normal_terms(VecF x) {
  VecF a = (VecF)((VecI)x & 0x7fffffff);
  a = min(broadcast(kNormalTailEnd), a);  // this operand order lets NaN through
  VecF head = (VecF)((VecI)a & static_cast<int>(0xfffff000));  // 12 bits: its square is exact
  VecF e = exp_of_sum(-0.5f * head * head, -0.5f * (a - head) * (a + head));
  VecF t = 1.0f / (1.0f + 0.265f * a);
  VecF r = broadcast(0.030912885609020894f);
  r = r * t - 0.14466347358555703f;
  r = r * t + 0.2186892411837052f;
  r = r * t - 0.11733748899744542f;
  r = r * t + 0.13861114266010022f;
  r = r * t + 0.06003832546811599f;
  r = r * t + 0.10277017885454073f;
  r = r * t + 0.10523707032073101f;
  r = r * t + 0.1057421239878512f;
  VecF tail = e * (r * t);
  tail = a >= kNormalTailEnd ? VecF{} : tail;
  return {x > 0.0f ? 1.0f - tail : tail, 0.398942280401432678f * e};
}

// Returns 1 / v, accurate to 14 bits or better.
inline VecF coarse_reciprocal(VecF v) {
#if defined(DTN_ISA_avx512)
  return (VecF)_mm512_rcp14_ps((__m512)v);
#else
  return 1.0f / v;
#endif
}

// 2^power for |power| < 127, to 1e-6 of it.
inline VecF coarse_exp2(VecF power) {
  VecF n = power + 12582912.0f;  // rounds to integer in the low mantissa bits
  VecI exponent = (VecI)n << 23;
  VecF r = power - (n - 12582912.0f);
  VecF p = broadcast(0.00957009895100941f);  // 2^r, |r| <= 1/2
  p = p * r + 0.05591786008708755f;
  p = p * r + 0.24024744900963807f;
  p = p * r + 0.6931218147800102f;
  p = p * r + 0.9999992614237073f;
  return (VecF)((VecI)p + exponent);
}

// Normal terms for x that is exact in bfloat16, to 2^-12 of Phi(-|x|). The error is an eighth of
// the rounding of the result to bfloat16, for two thirds of the work. Here x^2 is exact in float32.
inline NormalTerms<VecF> coarse_normal_terms(VecF x) {
  VecF a = (VecF)((VecI)x & 0x7fffffff);
  a = min(broadcast(kNormalTailEnd), a);
  VecF e = coarse_exp2(a * a * -0.721347520444481704f);  // exp(-a^2 / 2)
  VecF t = coarse_reciprocal(1.0f + 0.375f * a);
  VecF r = broadcast(-0.09112769076632701f);
  r = r * t + 0.20136005417466757f;
  r = r * t + 0.08272842870567815f;
  r = r * t + 0.15799777470905568f;
  r = r * t + 0.14903277543858304f;
  VecF tail = e * (r * t);
  tail = a >= kNormalTailEnd ? VecF{} : tail;
  return {x > 0.0f ? 1.0f - tail : tail, 0.398942280401432678f * e};
}

inline NormalTerms<Vec<double>> normal_terms(Vec<double> x) {
  NormalTerms<Vec<double>> terms;
  for (int i = 0; i < kLanes<double>; ++i) {
    terms.cdf[i] = 0.5 * std::erfc(-0.70710678118654752440 * x[i]);
    terms.density[i] = 0.39894228040143267794 * std::exp(-0.5 * x[i] * x[i]);
  }
  return terms;
}

template <class T>
inline NormalTerms<Vec<AccumulatorOf<T>>> normal_terms_of(Vec<AccumulatorOf<T>> x) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return coarse_normal_terms(x);
  } else {
    return normal_terms(x);
  }
}

// Bounds x, so that an infinite x does not give 0 * inf. Keeps NaN.
template <class V>
inline V above_tail(V x) {
  return max(V{} - 40, x);
}

// gelu of values that are stored as T.
template <class T>
inline Vec<AccumulatorOf<T>> gelu(Vec<AccumulatorOf<T>> x) {
  return above_tail(x) * normal_terms_of<T>(x).cdf;
}

// gelu(x) and its derivative, from one exponential.
template <class V>
struct GeluAndSlope {
  V value, slope;
};
template <class T>
inline GeluAndSlope<Vec<AccumulatorOf<T>>> gelu_and_slope(Vec<AccumulatorOf<T>> x) {
  auto terms = normal_terms_of<T>(x);
  auto above = above_tail(x);
  return {above * terms.cdf, terms.cdf + min(decltype(x){} + 40, above) * terms.density};
}

}  // namespace dtn::DTN_ISA
