// Elementwise GELU, forward and backward, limited by memory for bfloat16 and float32. See linear.h
// for the contract and gelu_terms.cuh for the arithmetic.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/gemm/linear.h"
#include "kernels/pointwise/gelu_terms.cuh"

namespace dtn {
namespace {

template <class T>
struct GeluMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 1;
  const T* x;
  T* y;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[1][n]) const {
    cuda::load_values(x + i, v[0]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[1][n]) const {
    for (int k = 0; k < n; ++k) v[0][k] = gelu<T>(v[0][k]);
    cuda::store_values(y + i, v[0]);
  }
};

template <class T>
struct GeluBackwardMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 2;
  const T *x, *dy;
  T* dx;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[2][n]) const {
    cuda::load_values(x + i, v[0]);
    cuda::load_values(dy + i, v[1]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[2][n]) const {
    for (int k = 0; k < n; ++k) v[1][k] *= gelu_and_slope<T>(v[0][k]).slope;
    cuda::store_values(dx + i, v[1]);
  }
};

}  // namespace

void run(CudaQueue& queue, const GeluForward& args) {
  for_cuda_dtype("gelu_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    cuda::launch_map(queue, "gelu_forward",
                     GeluMap<T>{static_cast<const T*>(args.x), static_cast<T*>(args.y)}, args.count,
                     cuda::all_aligned(args.x, args.y));
  });
}

void run(CudaQueue& queue, const GeluBackward& args) {
  for_cuda_dtype("gelu_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    cuda::launch_map(queue, "gelu_backward",
                     GeluBackwardMap<T>{static_cast<const T*>(args.x),
                                        static_cast<const T*>(args.dy), static_cast<T*>(args.dx)},
                     args.count, cuda::all_aligned(args.x, args.dy, args.dx));
  });
}

}  // namespace dtn
