// Upsampling and joining of tokens, with one thread per element of the result; see upsample_join.h.
// Neighbouring threads have neighbouring channels.
#include "kernels/conv/upsample_join.h"
#include "kernels/conv/window.cuh"

namespace dtn {
namespace {

using cuda::kWindowThreads;

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads)
    upsample_join_forward_kernel(UpsampleJoinForward args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const UpsampleShape& s = args.shape;
  const auto token = cuda::row_and_column<Index>(element, s.channels + args.fine_channels);
  T* y = static_cast<T*>(args.y) + element;
  if (token.column >= s.channels) {
    const std::int64_t channel = token.column - s.channels;
    *y = static_cast<const T*>(args.fine)[token.row * args.fine_channels + channel];
    return;
  }
  const auto line = cuda::row_and_column<Index>(token.row, s.width);
  const auto row = cuda::row_and_column<Index>(line.row, s.height);
  const std::int64_t i = row.column * s.coarse_height / s.height;
  const std::int64_t j = line.column * s.coarse_width / s.width;
  const std::int64_t at =
      ((row.row * s.coarse_height + i) * s.coarse_width + j) * s.channels + token.column;
  *y = static_cast<const T*>(args.coarse)[at];
}

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads)
    upsample_join_coarse_kernel(UpsampleJoinBackward args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const UpsampleShape& s = args.shape;
  const std::int64_t pitch = s.channels + args.fine_channels;
  const auto token = cuda::row_and_column<Index>(element, s.channels);
  const auto line = cuda::row_and_column<Index>(token.row, s.coarse_width);
  const auto row = cuda::row_and_column<Index>(line.row, s.coarse_height);
  const std::int64_t bottom = UpsampleShape::first(row.column + 1, s.height, s.coarse_height);
  const std::int64_t left = UpsampleShape::first(line.column, s.width, s.coarse_width);
  const std::int64_t right = UpsampleShape::first(line.column + 1, s.width, s.coarse_width);
  const T* dy =
      static_cast<const T*>(args.dy) + row.row * s.height * s.width * pitch + token.column;
  float sum = 0;
  for (std::int64_t y = UpsampleShape::first(row.column, s.height, s.coarse_height); y < bottom;
       ++y) {
    for (std::int64_t x = left; x < right; ++x) {
      sum += cuda::to_float(dy[(y * s.width + x) * pitch]);
    }
  }
  static_cast<T*>(args.dcoarse)[element] = cuda::from_float<T>(sum);
}

template <class T, class Index>
__global__ void __launch_bounds__(kWindowThreads)
    upsample_join_fine_kernel(UpsampleJoinBackward args, std::int64_t count) {
  const std::int64_t element = cuda::this_element();
  if (element >= count) return;
  const std::int64_t channels = args.shape.channels;
  const auto token = cuda::row_and_column<Index>(element, args.fine_channels);
  const std::int64_t at = token.row * (channels + args.fine_channels) + channels + token.column;
  static_cast<T*>(args.dfine)[element] = static_cast<const T*>(args.dy)[at];
}

}  // namespace

void run(CudaQueue& queue, const UpsampleJoinForward& args) {
  const UpsampleShape& s = args.shape;
  const std::int64_t pitch = s.channels + args.fine_channels;
  for_cuda_dtype("upsample_join_forward", s.dtype, [&](auto zero) {
    const std::int64_t count = s.batch * s.height * s.width * pitch;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_elements(queue, {"upsample_join_forward", {s.batch, s.height, s.width, pitch}},
                            upsample_join_forward_kernel<decltype(zero), decltype(index)>, count,
                            args, count);
    });
  });
}

void run(CudaQueue& queue, const UpsampleJoinBackward& args) {
  const UpsampleShape& s = args.shape;
  for_cuda_dtype("upsample_join_backward", s.dtype, [&](auto zero) {
    const std::int64_t coarse = s.batch * s.coarse_height * s.coarse_width * s.channels;
    const std::int64_t fine = s.batch * s.height * s.width * args.fine_channels;
    if (args.dcoarse) {
      cuda::for_index(coarse, [&](auto index) {
        cuda::launch_elements(
            queue, {"upsample_join_coarse", {s.batch, s.coarse_height, s.coarse_width, s.channels}},
            upsample_join_coarse_kernel<decltype(zero), decltype(index)>, coarse, args, coarse);
      });
    }
    if (args.dfine) {
      cuda::for_index(fine, [&](auto index) {
        cuda::launch_elements(
            queue, {"upsample_join_fine", {s.batch, s.height, s.width, args.fine_channels}},
            upsample_join_fine_kernel<decltype(zero), decltype(index)>, fine, args, fine);
      });
    }
  });
}

}  // namespace dtn
