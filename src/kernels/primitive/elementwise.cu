// Elementwise functions, limited by memory; see elementwise.h. One kernel computes all functions.
// The branch on the function costs little compared with the loads, because it is the same for the
// whole grid.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/primitive/elementwise.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float exp(float v) { return expf(v); }
__device__ __forceinline__ float log(float v) { return logf(v); }
__device__ __forceinline__ float sqrt(float v) { return sqrtf(v); }
__device__ __forceinline__ float erf(float v) { return erff(v); }
__device__ __forceinline__ float tanh(float v) { return tanhf(v); }
__device__ __forceinline__ float cos(float v) { return cosf(v); }
__device__ __forceinline__ float sin(float v) { return sinf(v); }
__device__ __forceinline__ float pow(float v, float exponent) { return powf(v, exponent); }

__device__ __forceinline__ float evaluate(Function function, float x, float y, float z, float a,
                                          float b) {
  using V = float;
  using S = float;
  switch (function) {
#define DTN_FUNCTION(name, inputs, formula) \
  case Function::k##name:                   \
    return formula;
#include "kernels/primitive/elementwise_functions.inc"
#undef DTN_FUNCTION
  }
  return 0;
}

int inputs_of(Function function) {
  switch (function) {
#define DTN_FUNCTION(name, inputs, formula) \
  case Function::k##name:                   \
    return inputs;
#include "kernels/primitive/elementwise_functions.inc"
#undef DTN_FUNCTION
  }
  return 0;
}

template <class T, class Index>
__global__ void __launch_bounds__(kThreads)
    elementwise_kernel(Elementwise args, int inputs, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  std::int64_t at[3] = {};
  auto rest = static_cast<Index>(i);
  for (int d = args.extents.rank - 1; d >= 0; --d) {
    const auto size = static_cast<Index>(args.extents.size[d]);
    const Index next = rest / size;
    const auto here = static_cast<std::int64_t>(rest - next * size);
    rest = next;
#pragma unroll
    for (int k = 0; k < 3; ++k) at[k] += here * args.strides[k].step[d];
  }
  float v[3] = {};
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    if (k < inputs) v[k] = cuda::to_float(static_cast<const T*>(args.in[k])[at[k]]);
  }
  const float y = evaluate(args.function, v[0], v[1], v[2], static_cast<float>(args.a),
                           static_cast<float>(args.b));
  static_cast<T*>(args.out)[i] = cuda::from_float<T>(y);
}

}  // namespace

void run(CudaQueue& queue, const Elementwise& args) {
  for_cuda_dtype("elementwise", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::int64_t count = 1;
    for (int d = 0; d < args.extents.rank; ++d) count *= args.extents.size[d];
    if (count == 0) return;
    cuda::for_index(count, [&](auto index) {
      launch(queue, {"elementwise", {static_cast<std::int64_t>(args.function), count}},
             elementwise_kernel<T, decltype(index)>, {blocks_for(count, kThreads), kThreads}, args,
             inputs_of(args.function), count);
    });
  });
}

}  // namespace dtn
