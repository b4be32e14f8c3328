// Pooling, one thread per output; see pool.h. The backward pass has one thread per input, which
// visits the windows that contain the input.
#include "kernels/primitive/pool_inputs.h"
#include "kernels/primitive/window.cuh"

namespace dtn {
namespace {

using cuda::kWindowThreads;
// Blocks per multiprocessor in the backward pass. Without this bound, the compiler uses fewer
// registers than its divisions need.
constexpr int kBlocks = 2;

// Returns the position in the plane of the first largest input, or of the first NaN.
template <class T>
__device__ __forceinline__ std::int64_t largest(const Window& w, const PoolInputs& in, const T* x) {
  std::int64_t at = in.top * w.width + in.left;
  float best = cuda::to_float(x[at]);
  for (std::int64_t r = in.top; r < in.bottom; ++r) {
    for (std::int64_t c = in.left; c < in.right; ++c) {
      const float value = cuda::to_float(x[r * w.width + c]);
      if (value > best || (value != value && best == best)) best = value, at = r * w.width + c;
    }
  }
  return at;
}

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads)
    pool_forward_kernel(PoolForward args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const Window& w = args.window;
  const auto at = cuda::PlaneElement::of<Index>(element, w.out_h, w.out_w);
  const T* x = static_cast<const T*>(args.x) + at.plane * w.height * w.width;
  T* y = static_cast<T*>(args.y);
  const PoolInputs in(w, at.i, at.j);
  if (args.kind == WindowPooling::kMax) {
    y[element] = x[largest(w, in, x)];
    return;
  }
  float sum = 0;
  for (std::int64_t r = in.top; r < in.bottom; ++r) {
    for (std::int64_t c = in.left; c < in.right; ++c) sum += cuda::to_float(x[r * w.width + c]);
  }
  y[element] = cuda::from_float<T>(sum * in.average_factor<float>(args.kind, w));
}

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads, kBlocks)
    pool_backward_kernel(PoolBackward args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const Window& w = args.window;
  const auto at = cuda::PlaneElement::of<Index>(element, w.height, w.width);
  const T* x = static_cast<const T*>(args.x);
  const T* dy = static_cast<const T*>(args.dy) + at.plane * w.out_h * w.out_w;
  if (args.kind == WindowPooling::kMax) x += at.plane * w.height * w.width;
  float sum = 0;
  const std::int64_t bottom = cuda::last_output(at.i, w.stride_h, w.pad_h, w.out_h);
  const std::int64_t right = cuda::last_output(at.j, w.stride_w, w.pad_w, w.out_w);
  const std::int64_t left = cuda::first_output(at.j, w.kernel_w, w.stride_w, w.pad_w);
  for (std::int64_t i = cuda::first_output(at.i, w.kernel_h, w.stride_h, w.pad_h); i <= bottom;
       ++i) {
    for (std::int64_t j = left; j <= right; ++j) {
      const PoolInputs in(w, i, j);
      const float d = cuda::to_float(dy[i * w.out_w + j]);
      if (args.kind != WindowPooling::kMax) {
        sum += d * in.average_factor<float>(args.kind, w);
      } else if (largest(w, in, x) == at.i * w.width + at.j) {
        sum += d;
      }
    }
  }
  static_cast<T*>(args.dx)[element] = cuda::from_float<T>(sum);
}

}  // namespace

void run(CudaQueue& queue, const PoolForward& args) {
  for_cuda_dtype("pool_forward", args.dtype, [&](auto zero) {
    const Window& w = args.window;
    const std::int64_t count = args.planes * w.out_h * w.out_w;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(queue, {"pool_forward", {args.planes, w.out_h, w.out_w}},
                            pool_forward_kernel<decltype(zero), decltype(index)>, count, args,
                            count);
    });
  });
}

void run(CudaQueue& queue, const PoolBackward& args) {
  for_cuda_dtype("pool_backward", args.dtype, [&](auto zero) {
    const Window& w = args.window;
    const std::int64_t count = args.planes * w.height * w.width;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(queue, {"pool_backward", {args.planes, w.height, w.width}},
                            pool_backward_kernel<decltype(zero), decltype(index)>, count, args,
                            count);
    });
  });
}

}  // namespace dtn
