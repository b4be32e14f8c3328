// Depthwise convolutions, one thread per output or input, one block per weight; see depthwise.h.
// Data that windows share comes from the cache.
#include "kernels/cuda/reduce.cuh"
#include "kernels/primitive/depthwise.h"
#include "kernels/primitive/window.cuh"

namespace dtn {
namespace {

using cuda::kWindowThreads;

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads)
    depthwise_forward_kernel(DepthwiseForward args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const Window& w = args.window;
  const auto at = cuda::PlaneElement::of<Index>(element, w.out_h, w.out_w);
  const T* x = static_cast<const T*>(args.x) + at.plane * w.height * w.width;
  const T* weight =
      static_cast<const T*>(args.weight) + at.plane % args.channels * w.kernel_h * w.kernel_w;
  float sum = 0;
  for (std::int64_t u = 0; u < w.kernel_h; ++u) {
    const std::int64_t i = at.i * w.stride_h + u - w.pad_h;
    if (i < 0 || i >= w.height) continue;
    for (std::int64_t v = 0; v < w.kernel_w; ++v) {
      const std::int64_t j = at.j * w.stride_w + v - w.pad_w;
      if (j < 0 || j >= w.width) continue;
      sum += cuda::to_float(weight[u * w.kernel_w + v]) * cuda::to_float(x[i * w.width + j]);
    }
  }
  static_cast<T*>(args.y)[element] = cuda::from_float<T>(sum);
}

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads)
    depthwise_input_kernel(DepthwiseBackwardInput args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const Window& w = args.window;
  const auto at = cuda::PlaneElement::of<Index>(element, w.height, w.width);
  const T* dy = static_cast<const T*>(args.dy) + at.plane * w.out_h * w.out_w;
  const T* weight =
      static_cast<const T*>(args.weight) + at.plane % args.channels * w.kernel_h * w.kernel_w;
  float sum = 0;
  for (std::int64_t u = 0; u < w.kernel_h; ++u) {
    const std::int64_t i = cuda::output_of(at.i, u, w.pad_h, w.stride_h, w.out_h);
    if (i < 0) continue;
    for (std::int64_t v = 0; v < w.kernel_w; ++v) {
      const std::int64_t j = cuda::output_of(at.j, v, w.pad_w, w.stride_w, w.out_w);
      if (j < 0) continue;
      sum += cuda::to_float(weight[u * w.kernel_w + v]) * cuda::to_float(dy[i * w.out_w + j]);
    }
  }
  static_cast<T*>(args.dx)[element] = cuda::from_float<T>(sum);
}

// Blocks: [channel, tap].
template <class T>
__global__ void __launch_bounds__(kWindowThreads)
    depthwise_weight_kernel(DepthwiseBackwardWeight args) {
  DTN_SHARED(float, scratch);
  const Window& w = args.window;
  const std::int64_t taps = w.kernel_h * w.kernel_w, pixels = w.out_h * w.out_w;
  const std::int64_t channel = blockIdx.x / taps, tap = blockIdx.x % taps;
  const std::int64_t u = tap / w.kernel_w, v = tap % w.kernel_w;
  float sum = 0;
  for (std::int64_t t = threadIdx.x; t < args.batch * pixels; t += kWindowThreads) {
    const std::int64_t plane = t / pixels * args.channels + channel, o = t % pixels;
    const std::int64_t i = o / w.out_w * w.stride_h + u - w.pad_h;
    const std::int64_t j = o % w.out_w * w.stride_w + v - w.pad_w;
    if (i < 0 || i >= w.height || j < 0 || j >= w.width) continue;
    sum += cuda::to_float(static_cast<const T*>(args.dy)[plane * pixels + o]) *
           cuda::to_float(static_cast<const T*>(args.x)[(plane * w.height + i) * w.width + j]);
  }
  const float total = cuda::block_sum_once(sum, scratch);
  if (threadIdx.x == 0) static_cast<float*>(args.dweight)[blockIdx.x] = total;
}

}  // namespace

void run(CudaQueue& queue, const DepthwiseForward& args) {
  for_cuda_dtype("depthwise_forward", args.dtype, [&](auto zero) {
    const Window& w = args.window;
    const std::int64_t count = args.batch * args.channels * w.out_h * w.out_w;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(
          queue, {"depthwise_forward", {args.batch, args.channels, w.out_h, w.out_w}},
          depthwise_forward_kernel<decltype(zero), decltype(index)>, count, args, count);
    });
  });
}

void run(CudaQueue& queue, const DepthwiseBackwardInput& args) {
  for_cuda_dtype("depthwise_backward_input", args.dtype, [&](auto zero) {
    const Window& w = args.window;
    const std::int64_t count = args.batch * args.channels * w.height * w.width;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(
          queue, {"depthwise_backward_input", {args.batch, args.channels, w.height, w.width}},
          depthwise_input_kernel<decltype(zero), decltype(index)>, count, args, count);
    });
  });
}

void run(CudaQueue& queue, const DepthwiseBackwardWeight& args) {
  for_cuda_dtype("depthwise_backward_weight", args.dtype, [&](auto zero) {
    const Window& w = args.window;
    const std::int64_t weights = args.channels * w.kernel_h * w.kernel_w;
    if (weights == 0) return;
    launch(
        queue, {"depthwise_backward_weight", {args.batch, args.channels, w.out_h, w.out_w}},
        depthwise_weight_kernel<decltype(zero)>,
        {blocks_for(weights, 1), kWindowThreads, kWindowThreads / cuda::kWarpSize * sizeof(float)},
        args);
  });
}

}  // namespace dtn
