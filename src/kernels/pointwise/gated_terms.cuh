// Activations x sigmoid(u(x)) and their gradients on the device; see activation.h.
#pragma once

#include "kernels/cuda/values.cuh"
#include "kernels/pointwise/activation.h"

namespace dtn {

// x sigmoid(u(x)). Clamping x at +-limit does not change the sigmoid.
template <class Exponent>
struct Gated {
  static __device__ __forceinline__ float within(float x) {
    return x < -Exponent::kLimit ? -Exponent::kLimit : x > Exponent::kLimit ? Exponent::kLimit : x;
  }
  static __device__ __forceinline__ float of(float x) {
    const float above = x < -Exponent::kLimit ? -Exponent::kLimit : x;
    return above / (1 + expf(-Exponent::value(within(x))));
  }
  static __device__ __forceinline__ float of(float x, float dy) {
    const float z = within(x), e = expf(-Exponent::value(z));
    const float s = 1 / (1 + e);
    return dy * (s * fmaf(z * Exponent::slope(z), e * s, 1.0f));
  }
};
struct GeluTanhExponent {
  static constexpr float kLimit = 10;
  static constexpr float kScale = static_cast<float>(kGeluTanhScale);
  static constexpr float kCubic = static_cast<float>(kGeluTanhCubic);
  static __device__ __forceinline__ float value(float x) {
    return kScale * fmaf(kCubic * x * x, x, x);
  }
  static __device__ __forceinline__ float slope(float x) {
    return kScale * fmaf(3 * kCubic * x, x, 1.0f);
  }
};

}  // namespace dtn
