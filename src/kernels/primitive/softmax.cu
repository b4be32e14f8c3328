// Softmax, one block per row; see softmax.h.
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/primitive/softmax.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    softmax_forward_kernel(const T* x, T* y, std::int64_t columns) {
  DTN_SHARED(float, scratch);
  const T* row = x + blockIdx.x * columns;
  T* out = y + blockIdx.x * columns;
  float largest = -__uint_as_float(0x7f800000u);
  for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    largest = cuda::max_or_nan(largest, cuda::to_float(row[i]));
  }
  largest = cuda::block_max(largest, scratch);
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    sum += expf(cuda::to_float(row[i]) - largest);
  }
  const float factor = 1 / cuda::block_sum_once(sum, scratch);
  for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    out[i] = cuda::from_float<T>(expf(cuda::to_float(row[i]) - largest) * factor);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    softmax_backward_kernel(const T* y, const T* dy, T* dx, std::int64_t columns) {
  DTN_SHARED(float, scratch);
  const std::int64_t first = blockIdx.x * columns;
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    sum += cuda::to_float(y[first + i]) * cuda::to_float(dy[first + i]);
  }
  const float dot = cuda::block_sum_once(sum, scratch);
  for (std::int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const float value = cuda::to_float(y[first + i]);
    dx[first + i] = cuda::from_float<T>(value * (cuda::to_float(dy[first + i]) - dot));
  }
}

LaunchShape shape_of(std::int64_t rows, std::int64_t columns) {
  const int threads = columns > 4 * cuda::kWarpSize ? kThreads : cuda::kWarpSize;
  return {blocks_for(rows, 1), static_cast<unsigned>(threads),
          kThreads / cuda::kWarpSize * sizeof(float)};
}

}  // namespace

void run(CudaQueue& queue, const SoftmaxForward& args) {
  for_cuda_dtype("softmax_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0 || args.columns == 0) return;
    launch(queue, {"softmax_forward", {args.rows, args.columns}}, softmax_forward_kernel<T>,
           shape_of(args.rows, args.columns), static_cast<const T*>(args.x),
           static_cast<T*>(args.y), args.columns);
  });
}

void run(CudaQueue& queue, const SoftmaxBackward& args) {
  for_cuda_dtype("softmax_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0 || args.columns == 0) return;
    launch(queue, {"softmax_backward", {args.rows, args.columns}}, softmax_backward_kernel<T>,
           shape_of(args.rows, args.columns), static_cast<const T*>(args.y),
           static_cast<const T*>(args.dy), static_cast<T*>(args.dx), args.columns);
  });
}

}  // namespace dtn
