// Slices selected by an index; see select.h. In the backward pass, a thread owns a column and goes
// through the index in order. So the order of the sums is fixed, and dy is read once.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/primitive/select.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;

template <class T, class Index>
__global__ void __launch_bounds__(kThreads) select_forward_kernel(SelectForward args) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= args.outer * args.count * args.inner) return;
  const cuda::RowColumn at = cuda::row_and_column<Index>(i, args.inner);
  const cuda::RowColumn of = cuda::row_and_column<Index>(at.row, args.count);
  const std::int64_t from = args.index[of.column];
  const bool valid = 0 <= from && from < args.extent;
  static_cast<T*>(args.y)[i] =
      valid ? static_cast<const T*>(args.x)[(of.row * args.extent + from) * args.inner + at.column]
            : cuda::from_float<T>(__uint_as_float(0x7fc00000u));
}

template <class T>
__global__ void __launch_bounds__(kThreads) select_backward_kernel(SelectBackward args) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= args.outer * args.inner) return;
  const std::int64_t o = i / args.inner, column = i % args.inner;
  const T* dy = static_cast<const T*>(args.dy) + o * args.count * args.inner + column;
  float* dx = static_cast<float*>(args.dx) + o * args.extent * args.inner + column;
  for (std::int64_t r = 0; r < args.count; ++r) {
    const std::int64_t to = args.index[r];
    if (0 <= to && to < args.extent) dx[to * args.inner] += cuda::to_float(dy[r * args.inner]);
  }
}

}  // namespace

void run(CudaQueue& queue, const SelectForward& args) {
  for_cuda_dtype("select_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t count = args.outer * args.count * args.inner;
    if (count == 0) return;
    cuda::for_index(count, [&](auto index) {
      launch(queue, {"select_forward", {args.outer, args.extent, args.inner, args.count}},
             select_forward_kernel<T, decltype(index)>, {blocks_for(count, kThreads), kThreads},
             args);
    });
  });
}

void run(CudaQueue& queue, const SelectBackward& args) {
  for_cuda_dtype("select_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.outer * args.inner == 0 || args.count == 0) return;
    launch(queue, {"select_backward", {args.outer, args.extent, args.inner, args.count}},
           select_backward_kernel<T>, {blocks_for(args.outer * args.inner, kThreads), kThreads},
           args);
  });
}

}  // namespace dtn
