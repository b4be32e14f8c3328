// The exact GELU, x Phi(x), and its derivative Phi(x) + x phi(x) on the device, from one
// exponential. Phi and phi are the distribution function and the density of the normal
// distribution. The fits are those of the host's gelu.h.
//
// float32, with a relative error of the fit of 1.1e-8:
//    Phi(-a) = exp(-a^2 / 2) R(t), t = 1 / (1 + p a), a >= 0
// erfcf is not accurate enough: the rounding of its argument alone costs a^2 roundoffs in the tail.
// So the exponent has two parts.
//
// bfloat16: a^2 is exact in float32. Shorter fits, with the hardware's exponential and reciprocal,
// give Phi(-a) to 2^-12, an eighth of the error of rounding the result. A forward pass takes 15
// instructions per element, and the memory leaves time for 27.
//
// Products that are added are contracted explicitly, so that an h that the backward pass recomputes
// has the bits of the h of the forward pass.
#pragma once

#include "kernels/cuda/tensor_core.cuh"
#include "kernels/cuda/values.cuh"

namespace dtn {

// Values at a >= 0; NaN if a is NaN.
struct NormalTail {
  float beyond;   // Phi(-a)
  float density;  // phi(a)
};

namespace detail {

inline constexpr float kDensityAtZero = 0.398942280401432678f;

// e^(high + low) for high in [-87.2, 0] and low in [-0.06, 0].
__device__ __forceinline__ float exp_of_sum(float high, float low) {
  // Adding 1.5 2^23 rounds to an integer in the low bits of the fraction.
  const float shifted = fmaf(high, 1.44269504088896341f, 12582912.0f);
  const unsigned exponent = __float_as_uint(shifted) << 23;
  const float n = shifted - 12582912.0f;
  float r = fmaf(n, -0.693145751953125f, high);
  r = fmaf(n, -1.42860682030941723e-6f, r) + low;
  float p = 0.0013814597774072339f;  // (e^r - 1 - r) / r^2
  p = fmaf(p, r, 0.008368716955810014f);
  p = fmaf(p, r, 0.041668388063543366f);
  p = fmaf(p, r, 0.166665206308912f);
  p = fmaf(p, r, 0.4999999344770573f);
  p = fmaf(p * r, r, r) + 1.0f;
  return __uint_as_float(__float_as_uint(p) + exponent);
}

}  // namespace detail

// Returns the terms for a = |x|, with x stored as T.
template <class T>
__device__ __forceinline__ NormalTail normal_tail(float a);

template <>
__device__ __forceinline__ NormalTail normal_tail<float>(float a) {
  constexpr float kTailEnd = 13.2f;  // beyond it the tail is below the smallest normal number
  a = a > kTailEnd ? kTailEnd : a;
  const float head = __uint_as_float(__float_as_uint(a) & 0xfffff000u);  // its square is exact
  const float e = detail::exp_of_sum(-0.5f * head * head, __fmul_rn(-0.5f * (a - head), a + head));
  const float t = __frcp_rn(fmaf(0.265f, a, 1.0f));
  float r = 0.030912885609020894f;
  r = fmaf(r, t, -0.14466347358555703f);
  r = fmaf(r, t, 0.2186892411837052f);
  r = fmaf(r, t, -0.11733748899744542f);
  r = fmaf(r, t, 0.13861114266010022f);
  r = fmaf(r, t, 0.06003832546811599f);
  r = fmaf(r, t, 0.10277017885454073f);
  r = fmaf(r, t, 0.10523707032073101f);
  r = fmaf(r, t, 0.1057421239878512f);
  return {a >= kTailEnd ? 0.0f : __fmul_rn(e, r * t), detail::kDensityAtZero * e};
}

template <>
__device__ __forceinline__ NormalTail normal_tail<bfloat16>(float a) {
  const float e = cuda::exp2_approximate(a * a * -0.721347520444481704f);  // 0 beyond the tail
  const float t = cuda::reciprocal_approximate(fmaf(0.375f, a, 1.0f));
  float r = -0.09112769076632701f;
  r = fmaf(r, t, 0.20136005417466757f);
  r = fmaf(r, t, 0.08272842870567815f);
  r = fmaf(r, t, 0.15799777470905568f);
  r = fmaf(r, t, 0.14903277543858304f);
  return {__fmul_rn(e, r * t), detail::kDensityAtZero * e};
}

struct GeluAndSlope {
  float value, slope;
};

//    x Phi(x) = max(x, 0) - |x| Phi(-|x|)
// This form rounds once and has no cancellation on either side. Factors are clamped at 40, because
// an infinity must not meet a factor of 0 there. A NaN comes in through the tail.
template <class T>
__device__ __forceinline__ GeluAndSlope gelu_and_slope(float x) {
  const NormalTail tail = normal_tail<T>(fabsf(x));
  const float cdf = x > 0.0f ? 1.0f - tail.beyond : tail.beyond;
  return {fmaf(-fminf(fabsf(x), 40.0f), tail.beyond, fmaxf(x, 0.0f)),
          fmaf(fminf(fmaxf(x, -40.0f), 40.0f), tail.density, cdf)};
}
template <class T>
__device__ __forceinline__ float gelu(float x) {
  return gelu_and_slope<T>(x).value;
}

}  // namespace dtn
