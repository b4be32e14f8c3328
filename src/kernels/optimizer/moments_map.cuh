// Common part of the optimizers with two moments per element, AdamW and LAMB: one pass over the
// flat buffers, see cuda::launch_map.
#pragma once

#include <cstdint>

#include "kernels/cuda/sums.cuh"

namespace dtn {

// Values are the parameter, its moments m and v, and its gradient.
template <class Step, class Factors>
struct MomentsMap {
  static constexpr int kWidth = 4, kVectors = 2, kInputs = 4;
  Step args;
  Factors f;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[4][n]) const {
    cuda::load_values(args.param + i, v[0]);
    cuda::load_values(args.m + i, v[1]);
    cuda::load_values(args.v + i, v[2]);
    cuda::load_values(args.grad + i, v[3]);
  }
  // One thread of a block computes the divisions and roots in float64, and the powers of a step
  // without a state.
  template <class F>
  __device__ void prepare_by(F&& factors_of) {
    DTN_SHARED(Factors, shared);
    if (threadIdx.x == 0) *shared = factors_of(args);
    __syncthreads();
    f = *shared;
  }
  template <int n>
  __device__ void write(std::int64_t i, const float (&v)[4][n]) const {
    cuda::store_values(args.m + i, v[1]);
    cuda::store_values(args.v + i, v[2]);
    cuda::store_values(args.param + i, v[0]);
    if (args.param_bf16) cuda::store_values(args.param_bf16 + i, v[0]);
  }
};

}  // namespace dtn
