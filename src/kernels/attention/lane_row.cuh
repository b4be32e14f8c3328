// A row of at most 32 C float32 values over the lanes of a warp. Lane l holds columns l, l + 32 and
// so on. Columns past the end of the row are zeros.
#pragma once

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"

namespace dtn::attention {

template <int C>
struct LaneRow {
  float values[C];

  static __device__ __forceinline__ int column(int c) {
    return static_cast<int>(threadIdx.x) % cuda::kWarpSize + c * cuda::kWarpSize;
  }
  // Reads nothing and becomes zeros unless `there`.
  template <class T>
  __device__ __forceinline__ void load(const T* row, int dim, bool there = true) {
#pragma unroll
    for (int c = 0; c < C; ++c) {
      values[c] = there && column(c) < dim ? cuda::to_float(row[column(c)]) : 0.0f;
    }
  }
  template <class T>
  __device__ __forceinline__ void store(T* row, int dim, float factor = 1) const {
#pragma unroll
    for (int c = 0; c < C; ++c) {
      if (column(c) < dim) row[column(c)] = cuda::from_float<T>(values[c] * factor);
    }
  }
  __device__ __forceinline__ void scale(float factor) {
#pragma unroll
    for (int c = 0; c < C; ++c) values[c] *= factor;
  }
  __device__ __forceinline__ void add(float factor, const LaneRow& row) {
#pragma unroll
    for (int c = 0; c < C; ++c) values[c] = fmaf(factor, row.values[c], values[c]);
  }
  // The dot product with another row, in every lane.
  __device__ __forceinline__ float dot(const LaneRow& row) const {
    float sum = 0;
#pragma unroll
    for (int c = 0; c < C; ++c) sum = fmaf(values[c], row.values[c], sum);
    return cuda::warp_sum(sum);
  }
};

}  // namespace dtn::attention
