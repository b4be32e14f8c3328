// Elementwise functions of arrays on a device, limited by memory; see elementwise.cuh.
#pragma once

#include "kernels/cuda/elementwise.cuh"

namespace dtn::cuda {

// y[i] = Function::of(x[0][i], ...), computed in float32.
template <class T, class Function, int kCount>
struct FunctionMap {
  static constexpr int kWidth = kPerVector<T>, kVectors = 2, kInputs = kCount;
  const T* x[kCount];
  T* y;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[kCount][n]) const {
#pragma unroll
    for (int k = 0; k < kCount; ++k) load_values(x[k] + i, v[k]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[kCount][n]) const {
    for (int e = 0; e < n; ++e) {
      if constexpr (kCount == 1) {
        v[0][e] = Function::of(v[0][e]);
      } else {
        v[0][e] = Function::of(v[0][e], v[1][e]);
      }
    }
    store_values(y + i, v[0]);
  }
};

// Maps one or two arrays of T to y, which may be one of them.
template <class T, class Function, class... X>
void map_values(CudaQueue& queue, const char* name, std::int64_t count, void* y, const X*... x) {
  launch_map(
      queue, name,
      FunctionMap<T, Function, sizeof...(X)>{{static_cast<const T*>(x)...}, static_cast<T*>(y)},
      count, all_aligned(y, x...));
}

}  // namespace dtn::cuda
