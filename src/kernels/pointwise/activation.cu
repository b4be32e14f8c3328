// Activation functions elementwise, limited by memory; see activation.h.
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/gated_terms.cuh"
#include "kernels/pointwise/map_values.cuh"

namespace dtn {
namespace {

// Each function has its value of(x), and its gradient of(x, dy).
struct Relu {
  static __device__ __forceinline__ float of(float x) { return x <= 0 ? 0.0f : x; }
  static __device__ __forceinline__ float of(float x, float dy) { return x <= 0 ? 0.0f : dy; }
};
// Clamping at +-100 does not change the result, and avoids 0 * inf for an infinite x.
struct Silu {
  static __device__ __forceinline__ float of(float x) {
    const float above = x < -100 ? -100.0f : x;
    return above / (1 + expf(-above));
  }
  static __device__ __forceinline__ float of(float x, float dy) {
    const float within = x < -100 ? -100.0f : x > 100 ? 100.0f : x;
    const float e = expf(within < 0 ? within : -within);  // does not overflow
    const float s = 1 / (1 + e), rest = e * s;            // sigmoid(|x|), 1 - sigmoid(|x|)
    return within < 0 ? dy * rest * fmaf(within, s, 1.0f) : dy * s * fmaf(within, rest, 1.0f);
  }
};
struct QuickGeluExponent {
  static constexpr float kLimit = 52;
  static constexpr float kScale = static_cast<float>(kQuickGeluScale);
  static __device__ __forceinline__ float value(float x) { return kScale * x; }
  static __device__ __forceinline__ float slope(float) { return kScale; }
};
struct Tanh {
  static __device__ __forceinline__ float of(float x) { return tanhf(x); }
  static __device__ __forceinline__ float of(float x, float dy) {
    const float y = tanhf(x);
    return dy * (1 - y) * (1 + y);
  }
};
struct Hardswish {
  static __device__ __forceinline__ float of(float x) {
    const float above = x < -3 ? -3.0f : x;  // avoids 0 * inf for an infinite x
    return above * ((above > 3 ? 6.0f : above + 3) * (1.0f / 6));
  }
  static __device__ __forceinline__ float of(float x, float dy) {
    return x <= -3 ? 0.0f : x >= 3 ? dy : dy * ((2 * x + 3) * (1.0f / 6));
  }
};

template <class F>
void for_activation(Activation kind, F&& f) {
  switch (kind) {
    case Activation::kRelu: return f(Relu{});
    case Activation::kSilu: return f(Silu{});
    case Activation::kTanh: return f(Tanh{});
    case Activation::kGeluTanh: return f(Gated<GeluTanhExponent>{});
    case Activation::kQuickGelu: return f(Gated<QuickGeluExponent>{});
    case Activation::kHardswish: return f(Hardswish{});
  }
}

}  // namespace

void run(CudaQueue& queue, const ActivationForward& args) {
  for_cuda_dtype("activation_forward", args.dtype, [&](auto zero) {
    for_activation(args.kind, [&](auto function) {
      cuda::map_values<decltype(zero), decltype(function)>(queue, "activation_forward", args.count,
                                                           args.y, args.x);
    });
  });
}

void run(CudaQueue& queue, const ActivationBackward& args) {
  for_cuda_dtype("activation_backward", args.dtype, [&](auto zero) {
    for_activation(args.kind, [&](auto function) {
      cuda::map_values<decltype(zero), decltype(function)>(queue, "activation_backward", args.count,
                                                           args.dx, args.x, args.dy);
    });
  });
}

}  // namespace dtn
