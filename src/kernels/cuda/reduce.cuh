// Sums and maxima over a warp or a block, always in the same order.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace dtn::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffu;

// Every lane gets the sum.
template <class T>
__device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    v += __shfl_xor_sync(kWholeWarp, v, offset);
  }
  return v;
}

// The larger; NaN when either is.
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

// Every thread gets the sum over the block. `scratch` is shared memory for one T per warp; it may
// be used again at once. The block is one-dimensional, of whole warps.
template <class T>
__device__ __forceinline__ T block_sum(T v, T* scratch) {
  int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  int warps = static_cast<int>(blockDim.x) / kWarpSize;
  v = warp_sum(v);
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  T total = warp_sum(lane < warps ? scratch[lane] : T(0));
  __syncthreads();
  return total;
}

// Every thread gets the largest value of the block, or NaN when there is one; `scratch` as above.
template <class T>
__device__ __forceinline__ T block_max(T v, T* scratch) {
  int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  int warps = static_cast<int>(blockDim.x) / kWarpSize;
  v = warp_max(v);
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  T largest = warp_max(scratch[lane < warps ? lane : 0]);
  __syncthreads();
  return largest;
}

}  // namespace dtn::cuda
