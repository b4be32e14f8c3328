// Sums and maxima over a warp or a block, always in the same order.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace dtn::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffu;

// Returns the sum over the warp, in every lane.
template <class T>
__device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    v += __shfl_xor_sync(kWholeWarp, v, offset);
  }
  return v;
}

// Returns the larger value; NaN if either is NaN.
template <class T>
__device__ __forceinline__ T max_or_nan(T a, T b) {
  return a > b || a != a ? a : b;
}

template <class T>
__device__ __forceinline__ T warp_max(T v) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    v = max_or_nan(v, __shfl_xor_sync(kWholeWarp, v, offset));
  }
  return v;
}

// Lane i of every warp gets of_warp of the block's warp i; if there is no warp i, the lane keeps
// its own of_warp. `scratch` is shared memory for one T per warp, which may be overwritten after a
// barrier. The block is one-dimensional and consists of whole warps.
template <class T>
__device__ __forceinline__ T gather_warps(T of_warp, T* scratch) {
  int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  int warps = static_cast<int>(blockDim.x) / kWarpSize;
  if (lane == 0) scratch[threadIdx.x / kWarpSize] = of_warp;
  __syncthreads();
  return lane < warps ? scratch[lane] : of_warp;
}

// Returns the sum over the block, in every thread; `scratch` as above.
template <class T>
__device__ __forceinline__ T block_sum_once(T v, T* scratch) {
  int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  T of_lane = gather_warps(warp_sum(v), scratch);
  return warp_sum(lane < static_cast<int>(blockDim.x) / kWarpSize ? of_lane : T(0));
}

// Like block_sum_once(), but the scratch may be reused at once.
template <class T>
__device__ __forceinline__ T block_sum(T v, T* scratch) {
  T total = block_sum_once(v, scratch);
  __syncthreads();
  return total;
}

// Returns the largest value of the block, or NaN if there is one, in every thread; the scratch may
// be reused at once.
template <class T>
__device__ __forceinline__ T block_max(T v, T* scratch) {
  T largest = warp_max(gather_warps(warp_max(v), scratch));
  __syncthreads();
  return largest;
}

}  // namespace dtn::cuda
