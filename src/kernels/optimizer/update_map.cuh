// Common part of the updates on CUDA devices: one pass over flat buffers, see cuda::launch_map.
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/optimizer/optimizer_factors.h"

namespace dtn {

// Loads the values of kBuffers, which are members of the arguments. With kOnce, one thread of a
// block computes the factors, because they take divisions, roots or powers in float64. The launch
// then needs sizeof(Factors) bytes of shared memory.
template <class Step, int kVectorsPerThread, bool kOnce, auto... kBuffers>
struct UpdateMap {
  static constexpr int kWidth = 4, kVectors = kVectorsPerThread, kInputs = sizeof...(kBuffers);
  using Factors = decltype(factors_of(Step{}));
  Step args;
  Factors f{};

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[kInputs][n]) const {
    int k = 0;
    (cuda::load_values(args.*kBuffers + i, v[k++]), ...);
  }
  __device__ void prepare() {
    if constexpr (kOnce) {
      DTN_SHARED(Factors, shared);
      if (threadIdx.x == 0) *shared = factors_of(args);
      __syncthreads();
      f = *shared;
    } else {
      f = factors_of(args);
    }
  }
  // Stores the parameters, and their bfloat16 copy if there is one.
  template <int n>
  __device__ void store_params(std::int64_t i, const float (&p)[n]) const {
    cuda::store_values(args.param + i, p);
    if (args.param_bf16) cuda::store_values(args.param_bf16 + i, p);
  }
};

}  // namespace dtn
