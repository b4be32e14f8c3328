// Elementwise GELU, forward and backward, limited by memory for bfloat16 and float32. See linear.h
// for the contract and gelu_terms.cuh for the arithmetic.
#include "kernels/gemm/linear.h"
#include "kernels/pointwise/gelu_terms.cuh"
#include "kernels/pointwise/map_values.cuh"

namespace dtn {
namespace {

template <class T>
struct Gelu {
  static __device__ __forceinline__ float of(float x) { return gelu<T>(x); }
};
template <class T>
struct GeluGradient {
  static __device__ __forceinline__ float of(float x, float dy) {
    return dy * gelu_and_slope<T>(x).slope;
  }
};

}  // namespace

void run(CudaQueue& queue, const GeluForward& args) {
  for_cuda_dtype("gelu_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    cuda::map_values<T, Gelu<T>>(queue, "gelu_forward", args.count, args.y, args.x);
  });
}

void run(CudaQueue& queue, const GeluBackward& args) {
  for_cuda_dtype("gelu_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    cuda::map_values<T, GeluGradient<T>>(queue, "gelu_backward", args.count, args.dx, args.x,
                                         args.dy);
  });
}

}  // namespace dtn
