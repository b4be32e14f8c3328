// The soft split, with one thread per element that is written; see soft_split.h.
#include "kernels/conv/soft_split.h"
#include "kernels/conv/window.cuh"

namespace dtn {
namespace {

using cuda::kWindowThreads;
using cuda::row_and_column;

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads)
    soft_split_forward_kernel(SoftSplitForward args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const Window& w = args.window;
  const auto tap_v = row_and_column<Index>(element, w.kernel_w);
  const auto tap_u = row_and_column<Index>(tap_v.row, w.kernel_h);
  const auto channel = row_and_column<Index>(tap_u.row, args.channels);
  const auto line = row_and_column<Index>(channel.row, w.out_w);
  const auto image = row_and_column<Index>(line.row, w.out_h);
  const std::int64_t i = image.column * w.stride_h + tap_u.column - w.pad_h;
  const std::int64_t j = line.column * w.stride_w + tap_v.column - w.pad_w;
  const bool inside = i >= 0 && i < w.height && j >= 0 && j < w.width;
  const T* x = static_cast<const T*>(args.x);
  static_cast<T*>(args.y)[element] =
      inside ? x[((image.row * w.height + i) * w.width + j) * args.channels + channel.column]
             : cuda::from_float<T>(0.0f);
}

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads)
    soft_split_backward_kernel(SoftSplitBackward args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const Window& w = args.window;
  const auto token = row_and_column<Index>(element, args.channels);
  const auto line = row_and_column<Index>(token.row, w.width);
  const auto image = row_and_column<Index>(line.row, w.height);
  const std::int64_t taps = w.kernel_h * w.kernel_w;
  const T* dy = static_cast<const T*>(args.dy);
  float sum = 0;
  for (std::int64_t u = 0; u < w.kernel_h; ++u) {
    const std::int64_t i = cuda::output_of(image.column, u, w.pad_h, w.stride_h, w.out_h);
    if (i < 0) continue;
    for (std::int64_t v = 0; v < w.kernel_w; ++v) {
      const std::int64_t j = cuda::output_of(line.column, v, w.pad_w, w.stride_w, w.out_w);
      if (j < 0) continue;
      const std::int64_t copy = (image.row * w.out_h + i) * w.out_w + j;
      sum += cuda::to_float(dy[(copy * args.channels + token.column) * taps + u * w.kernel_w + v]);
    }
  }
  static_cast<T*>(args.dx)[element] = cuda::from_float<T>(sum);
}

}  // namespace

void run(CudaQueue& queue, const SoftSplitForward& args) {
  for_cuda_dtype("soft_split_forward", args.dtype, [&](auto zero) {
    const Window& w = args.window;
    const std::int64_t count =
        args.batch * w.out_h * w.out_w * args.channels * w.kernel_h * w.kernel_w;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(
          queue, {"soft_split_forward", {args.batch, w.out_h, w.out_w, args.channels}},
          soft_split_forward_kernel<decltype(zero), decltype(index)>, count, args, count);
    });
  });
}

void run(CudaQueue& queue, const SoftSplitBackward& args) {
  for_cuda_dtype("soft_split_backward", args.dtype, [&](auto zero) {
    const Window& w = args.window;
    const std::int64_t count = args.batch * w.height * w.width * args.channels;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(
          queue, {"soft_split_backward", {args.batch, w.height, w.width, args.channels}},
          soft_split_backward_kernel<decltype(zero), decltype(index)>, count, args, count);
    });
  });
}

}  // namespace dtn
