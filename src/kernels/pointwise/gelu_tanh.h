// The approximation of GELU by tanh and its derivative, on the vectors of simd.h; see activation.h:
//    s = 1 / (1 + e^-u),  gelu_tanh(x) = x s,  gelu_tanh'(x) = s (1 + x u'(x) (1 - s))
#pragma once

#include <type_traits>

#include "kernels/cpu/vector_math.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/gelu.h"

namespace dtn::DTN_ISA {

// The exponent u and its derivative.
struct GeluTanhExponent {
  static constexpr int kLimit = 10;  // beyond it s no longer changes
  template <class V>
  static V value(V x) {
    return scale<V> * (x + cubic<V> * x * x * x);
  }
  template <class V>
  static V slope(V x) {
    return scale<V> * (1 + 3 * cubic<V> * x * x);
  }
  template <class V>
  using Lane = std::remove_cvref_t<decltype(V{}[0])>;
  template <class V>
  static constexpr Lane<V> scale = static_cast<Lane<V>>(kGeluTanhScale);
  template <class V>
  static constexpr Lane<V> cubic = static_cast<Lane<V>>(kGeluTanhCubic);
};

// gelu_tanh(x) and its derivative of values that are stored as T. NaN stays NaN. For bfloat16, the
// error is an eighth of the rounding of the result.
template <class T>
inline GeluAndSlope<Vec<AccumulatorOf<T>>> gelu_tanh_and_slope(Vec<AccumulatorOf<T>> x) {
  using V = Vec<AccumulatorOf<T>>;
  using U = GeluTanhExponent;
  const V above = max(V{} - U::kLimit, x);  // an infinite x must not meet a factor of 0
  const V within = min(V{} + U::kLimit, above);
  V e, s;
  if constexpr (std::is_same_v<T, bfloat16>) {
    e = coarse_exp2(U::value(within) * -1.44269504088896341f);
    s = coarse_reciprocal(1.0f + e);
  } else {
    e = exp(-U::value(within));
    s = 1 / (1 + e);
  }
  return {above * s, s * (1 + within * U::slope(within) * (e * s))};
}

}  // namespace dtn::DTN_ISA
