// Pooling of tokens, with one thread per output and channel. In the backward pass, each input and
// channel has one thread, which evaluates all windows that contain the input; see pool_tokens.h.
// Neighbouring threads have neighbouring channels.
#include "kernels/conv/pool_inputs.h"
#include "kernels/conv/pool_tokens.h"
#include "kernels/conv/window.cuh"

namespace dtn {
namespace {

using cuda::kWindowThreads;
// Blocks per multiprocessor of the backward pass, for the launch bounds. Without it the compiler
// uses fewer registers than its divisions need.
constexpr int kBlocks = 2;

// A thread's image, place in the grid and channel; channels are innermost.
struct Place {
  std::int64_t image, i, j, c;
  template <class Index>
  static __device__ __forceinline__ Place of(std::int64_t element, std::int64_t h, std::int64_t w,
                                             std::int64_t channels) {
    const auto token = cuda::row_and_column<Index>(element, channels);
    const auto line = cuda::row_and_column<Index>(token.row, w);
    const auto row = cuda::row_and_column<Index>(line.row, h);
    return {row.row, row.column, line.column, token.column};
  }
};

// Returns the place in the grid of the first largest input, or of the first NaN. x is
// [height width, C] from a channel on.
template <class T>
__device__ __forceinline__ std::int64_t largest(const Window& w, const PoolInputs& in, const T* x,
                                                std::int64_t channels) {
  std::int64_t at = in.top * w.width + in.left;
  float best = cuda::to_float(x[at * channels]);
  for (std::int64_t r = in.top; r < in.bottom; ++r) {
    for (std::int64_t c = in.left; c < in.right; ++c) {
      const float value = cuda::to_float(x[(r * w.width + c) * channels]);
      if (value > best || (value != value && best == best)) best = value, at = r * w.width + c;
    }
  }
  return at;
}

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads)
    pool_tokens_forward_kernel(PoolTokensForward args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const Window& w = args.window;
  const Place at = Place::of<Index>(element, w.out_h, w.out_w, args.channels);
  const T* x = static_cast<const T*>(args.x) + at.image * w.height * w.width * args.channels + at.c;
  T* y = static_cast<T*>(args.y);
  const PoolInputs in(w, at.i, at.j);
  if (args.kind == WindowPooling::kMax) {
    y[element] = x[largest(w, in, x, args.channels) * args.channels];
    return;
  }
  float sum = 0;
  for (std::int64_t r = in.top; r < in.bottom; ++r) {
    for (std::int64_t c = in.left; c < in.right; ++c) {
      sum += cuda::to_float(x[(r * w.width + c) * args.channels]);
    }
  }
  y[element] = cuda::from_float<T>(sum * in.average_factor<float>(args.kind, w));
}

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads, kBlocks)
    pool_tokens_backward_kernel(PoolTokensBackward args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const Window& w = args.window;
  const Place at = Place::of<Index>(element, w.height, w.width, args.channels);
  const T* x = static_cast<const T*>(args.x);
  if (args.kind == WindowPooling::kMax) x += at.image * w.height * w.width * args.channels + at.c;
  const T* dy =
      static_cast<const T*>(args.dy) + at.image * w.out_h * w.out_w * args.channels + at.c;
  float sum = 0;
  const std::int64_t bottom = cuda::last_output(at.i, w.stride_h, w.pad_h, w.out_h);
  const std::int64_t right = cuda::last_output(at.j, w.stride_w, w.pad_w, w.out_w);
  const std::int64_t left = cuda::first_output(at.j, w.kernel_w, w.stride_w, w.pad_w);
  for (std::int64_t i = cuda::first_output(at.i, w.kernel_h, w.stride_h, w.pad_h); i <= bottom;
       ++i) {
    for (std::int64_t j = left; j <= right; ++j) {
      const PoolInputs in(w, i, j);
      const float d = cuda::to_float(dy[(i * w.out_w + j) * args.channels]);
      if (args.kind != WindowPooling::kMax) {
        sum += d * in.average_factor<float>(args.kind, w);
      } else if (largest(w, in, x, args.channels) == at.i * w.width + at.j) {
        sum += d;
      }
    }
  }
  static_cast<T*>(args.dx)[element] = cuda::from_float<T>(sum);
}

}  // namespace

void run(CudaQueue& queue, const PoolTokensForward& args) {
  for_cuda_dtype("pool_tokens_forward", args.dtype, [&](auto zero) {
    const Window& w = args.window;
    const std::int64_t count = args.batch * w.out_h * w.out_w * args.channels;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(
          queue, {"pool_tokens_forward", {args.batch, w.out_h, w.out_w, args.channels}},
          pool_tokens_forward_kernel<decltype(zero), decltype(index)>, count, args, count);
    });
  });
}

void run(CudaQueue& queue, const PoolTokensBackward& args) {
  for_cuda_dtype("pool_tokens_backward", args.dtype, [&](auto zero) {
    const Window& w = args.window;
    const std::int64_t count = args.batch * w.height * w.width * args.channels;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(
          queue, {"pool_tokens_backward", {args.batch, w.height, w.width, args.channels}},
          pool_tokens_backward_kernel<decltype(zero), decltype(index)>, count, args, count);
    });
  });
}

}  // namespace dtn
