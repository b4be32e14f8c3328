// PowerNorm of rows that do not fit in registers. A few lanes per group compute the values of the
// group, and these are kept in device memory. See power_norm.h.
#pragma once

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/norm/power_norm.h"

namespace dtn {

// Coefficients of dz0 = dy direct - z0 damped, for each channel.
struct PowerNormSlopes {
  const float* weight;
  const float* rpsi;
  const float* ema_gz;  // null: no damping
  float rest;           // 1 - alpha

  __device__ __forceinline__ float direct(std::int64_t c) const { return weight[c] * rpsi[c]; }
  __device__ __forceinline__ float damped(std::int64_t c) const {
    return ema_gz ? rest * ema_gz[c] * rpsi[c] * rpsi[c] : 0.0f;
  }
};

template <class T>
struct PowerNormSegments {
  std::int64_t segments;  // rows times groups, consecutive, D values each
  int groups, width, lanes;
  float share, eps;
  const T* x;
  const T* dy;  // null: computes only the factors
  PowerNormSlopes slopes;
  float* factors;    // [segments]: s
  float* mean_dots;  // [segments]: mean of dz0 z0
};

inline constexpr int kSegmentThreads = 128;

template <class T>
__global__ void __launch_bounds__(kSegmentThreads)
    power_norm_segments_kernel(PowerNormSegments<T> a) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kSegmentThreads + threadIdx.x;
  const std::int64_t segment = thread / a.lanes, first = segment * a.width;
  const std::int64_t channel = segment % a.groups * a.width;
  const int part = static_cast<int>(thread % a.lanes);
  const bool live = segment < a.segments;
  float squares = 0, straight = 0, damped = 0;
  for (int k = live ? part : a.width; k < a.width; k += a.lanes) {
    const float x = cuda::to_float(a.x[first + k]);
    squares = fmaf(x, x, squares);
    if (!a.dy) continue;
    straight = fmaf(cuda::to_float(a.dy[first + k]) * a.slopes.direct(channel + k), x, straight);
    damped = fmaf(a.slopes.damped(channel + k) * x, x, damped);
  }
  for (int offset = a.lanes / 2; offset > 0; offset /= 2) {
    squares += __shfl_xor_sync(cuda::kWholeWarp, squares, offset);
    straight += __shfl_xor_sync(cuda::kWholeWarp, straight, offset);
    damped += __shfl_xor_sync(cuda::kWholeWarp, damped, offset);
  }
  if (!live || part != 0) return;
  const float factor = 1.0f / sqrtf(fmaf(squares, a.share, a.eps));
  a.factors[segment] = factor;
  if (a.dy) a.mean_dots[segment] = (straight - damped * factor) * factor * a.share;
}

template <class T>
void launch_segments(CudaQueue& queue, const PowerNormShape& s, PowerNormSegments<T> a) {
  a.segments = s.rows * s.groups;
  a.groups = static_cast<int>(s.groups), a.width = static_cast<int>(s.channels / s.groups);
  a.lanes = 1;
  while (a.lanes < a.width && a.lanes < cuda::kWarpSize) a.lanes *= 2;
  a.share = 1.0f / static_cast<float>(a.width), a.eps = static_cast<float>(s.eps);
  launch(queue, {"power_norm_segments", {s.rows, s.channels, s.groups}},
         power_norm_segments_kernel<T>,
         {blocks_for(a.segments * a.lanes, kSegmentThreads), kSegmentThreads}, a);
}

// Returns s of all groups of all rows.
template <class T>
DeviceScratch<float> long_factors(CudaQueue& queue, const PowerNormShape& s, const T* x) {
  auto factors = queue.scratch<float>(s.rows * s.groups);
  PowerNormSegments<T> a{};
  a.x = x;
  a.factors = factors.get();
  launch_segments(queue, s, a);
  return factors;
}

}  // namespace dtn
