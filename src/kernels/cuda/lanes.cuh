// A row, or part of one, distributed over the lanes of a warp and held in registers.
#pragma once

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"

namespace dtn::cuda {

// kValues values of T in each lane, in runs of kRun neighbours. `kWide`: consecutive lanes take
// consecutive runs of 16 bytes, for rows that is_vectorizable() accepts. Otherwise the runs are
// single values, for any row. Columns past the end of the row are read as 0. bfloat16 loaded as
// vectors stays packed, so that values waiting for a reduction take half the registers.
template <class T, int kValues, bool kWide>
class LaneValues {
 public:
  static constexpr int kRun = kWide ? kPerVector<T> : 1;  // neighbouring columns of one lane
  static constexpr int kColumns = kValues * kWarpSize;
  static_assert(kValues % kRun == 0);

  // Column of a lane's value i in the row.
  static __device__ __forceinline__ int column(int lane, int i) {
    return (i / kRun * kWarpSize + lane) * kRun + i % kRun;
  }

  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (kPacked) return i % 2 ? high_bfloat16(held_[i / 2]) : low_bfloat16(held_[i / 2]);
    if constexpr (!kPacked) return held_[i];
  }

  // Sets the run of values from i on, rounded to T; i is a multiple of kRun.
  __device__ __forceinline__ void set_run(int i, const float (&values)[kRun]) {
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      if constexpr (kPacked) {
        if (k % 2) held_[(i + k) / 2] = pack_bfloat16(values[k - 1], values[k]);
      } else {
        held_[i + k] = to_float(from_float<T>(values[k]));
      }
    }
  }

  __device__ __forceinline__ void load(const T* row, int lane, int columns) {
#pragma unroll
    for (int i = 0; i < kValues; i += kRun) {
      const int c = column(lane, i);
      if constexpr (kPacked) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (c < columns) v = *reinterpret_cast<const uint4*>(row + c);
        held_[i / 2] = v.x, held_[i / 2 + 1] = v.y;
        held_[i / 2 + 2] = v.z, held_[i / 2 + 3] = v.w;
      } else if constexpr (kWide) {
        float4 v = make_float4(0, 0, 0, 0);
        if (c < columns) v = *reinterpret_cast<const float4*>(row + c);
        held_[i] = v.x, held_[i + 1] = v.y, held_[i + 2] = v.z, held_[i + 3] = v.w;
      } else {
        held_[i] = c < columns ? to_float(row[c]) : 0.0f;
      }
    }
  }

  // Stores one run of values, rounded to T.
  static __device__ __forceinline__ void store_run(T* to, const float (&values)[kRun]) {
    if constexpr (kWide) {
      store_vector<T>(to, values);
    } else {
      *to = from_float<T>(values[0]);
    }
  }

  // Loads a run of float32 values at the same columns of another row: parameters, sums, targets.
  static __device__ __forceinline__ void load_float_run(const float* from, float (&to)[kRun]) {
    if constexpr (kWide) {
#pragma unroll
      for (int k = 0; k < kRun; k += 4) {
        const float4 v = *reinterpret_cast<const float4*>(from + k);
        to[k] = v.x, to[k + 1] = v.y, to[k + 2] = v.z, to[k + 3] = v.w;
      }
    } else {
      to[0] = *from;
    }
  }
  static __device__ __forceinline__ void store_float_run(float* to, const float (&from)[kRun]) {
    if constexpr (kWide) {
#pragma unroll
      for (int k = 0; k < kRun; k += 4) {
        *reinterpret_cast<float4*>(to + k) =
            make_float4(from[k], from[k + 1], from[k + 2], from[k + 3]);
      }
    } else {
      *to = from[0];
    }
  }
  // Stores all values except those past the end of the row.
  static __device__ __forceinline__ void store_floats(float* row, int lane, int columns,
                                                      const float (&from)[kValues]) {
#pragma unroll
    for (int i = 0; i < kValues; i += kRun) {
      const int c = column(lane, i);
      if (c >= columns) continue;
      float run[kRun];
#pragma unroll
      for (int k = 0; k < kRun; ++k) run[k] = from[i + k];
      store_float_run(row + c, run);
    }
  }

 private:
  static constexpr bool kPacked = kWide && sizeof(T) == 2;
  using Held = std::conditional_t<kPacked, unsigned, float>;
  Held held_[kPacked ? kValues / 2 : kValues];
};

}  // namespace dtn::cuda
