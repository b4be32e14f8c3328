// The approximation of GELU by tanh and its derivative, on the vectors of simd.h; see activation.h:
//    s = 1 / (1 + e^-u),  gelu_tanh(x) = x s,  gelu_tanh'(x) = s (1 + x u'(x) (1 - s))
#pragma once

#include <type_traits>

#include "kernels/cpu/vector_math.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/gelu.h"

namespace dtn::DTN_ISA {

// e^v for |v| < 88, with a relative error of 1e-6.
inline VecF coarse_exp(VecF v) {
  VecF power = v * 1.44269504088896341f;
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

// u and its derivative at x.
template <class V>
struct GeluTanhExponent {
  using Lane = std::remove_cvref_t<decltype(V{}[0])>;
  static constexpr Lane kScale = static_cast<Lane>(kGeluTanhScale);
  static constexpr Lane kCubic = static_cast<Lane>(kGeluTanhCubic);
  static constexpr int kLimit = 10;  // beyond it s no longer changes

  static V value(V x) { return kScale * (x + kCubic * x * x * x); }
  static V slope(V x) { return kScale * (1 + 3 * kCubic * x * x); }
};

// gelu_tanh(x) and its derivative of values that are stored as T. NaN stays NaN. For bfloat16, the
// error is an eighth of the rounding of the result.
template <class T>
inline GeluAndSlope<Vec<AccumulatorOf<T>>> gelu_tanh_and_slope(Vec<AccumulatorOf<T>> x) {
  using V = Vec<AccumulatorOf<T>>;
  using U = GeluTanhExponent<V>;
  const V above = max(V{} - U::kLimit, x);  // an infinite x must not meet a factor of 0
  const V within = min(V{} + U::kLimit, above);
  V e, s;
  if constexpr (std::is_same_v<T, bfloat16>) {
    e = coarse_exp(-U::value(within));
    s = coarse_reciprocal(1.0f + e);
  } else {
    e = exp(-U::value(within));
    s = 1 / (1 + e);
  }
  return {above * s, s * (1 + within * U::slope(within) * (e * s))};
}

}  // namespace dtn::DTN_ISA
