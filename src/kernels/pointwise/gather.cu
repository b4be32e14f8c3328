// Neighbours of tokens; see gather.h. Copies and small sums, limited by memory. Each output is
// written once, in vectors. Data that tokens share as neighbours comes from the cache.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/pointwise/gather.h"

namespace dtn {
namespace {

// Image, grid position and channel of an element.
template <class Index>
struct Place {
  std::int64_t image, i, j, channel;
  __device__ __forceinline__ Place(std::int64_t token, std::int64_t c, std::int64_t h,
                                   std::int64_t w) {
    const cuda::RowColumn line = cuda::row_and_column<Index>(token, w);
    const cuda::RowColumn grid = cuda::row_and_column<Index>(line.row, h);
    image = grid.row, i = grid.column, j = line.column, channel = c;
  }
};

template <class T, class Index>
struct NeighboursMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 1;
  const T* x;
  T* y;
  std::int64_t h, w, channels;

  template <int n>
  __device__ void load(std::int64_t index, float (&v)[1][n]) const {
    const cuda::RowColumn of = cuda::row_and_column<Index>(index, channels);
    const cuda::RowColumn from = cuda::row_and_column<Index>(of.row, 9);
    const Place<Index> at(from.row, of.column, h, w);
    const auto k = static_cast<int>(from.column);
    const std::int64_t i = at.i + k / 3 - 1, j = at.j + k % 3 - 1;
    for (int e = 0; e < n; ++e) v[0][e] = 0;
    if (0 <= i && i < h && 0 <= j && j < w) {
      cuda::load_values(x + ((at.image * h + i) * w + j) * channels + at.channel, v[0]);
    }
  }
  template <int n>
  __device__ void store(std::int64_t index, float (&v)[1][n]) const {
    cuda::store_values(y + index, v[0]);
  }
};

template <class T, class Index>
struct NeighboursBackwardMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 1, kInputs = 1;
  const T* dy;
  T* dx;
  std::int64_t h, w, channels;

  template <int n>
  __device__ void load(std::int64_t, float (&)[1][n]) const {}
  template <int n>
  __device__ void store(std::int64_t index, float (&)[1][n]) const {
    const cuda::RowColumn of = cuda::row_and_column<Index>(index, channels);
    const Place<Index> at(of.row, of.column, h, w);
    float sum[n] = {};
#pragma unroll
    for (int k = 0; k < 9; ++k) {
      const std::int64_t i = at.i - k / 3 + 1, j = at.j - k % 3 + 1;
      if (i < 0 || i >= h || j < 0 || j >= w) continue;
      float d[n];
      cuda::load_values(dy + (((at.image * h + i) * w + j) * 9 + k) * channels + at.channel, d);
      for (int e = 0; e < n; ++e) sum[e] += d[e];
    }
    cuda::store_values(dx + index, sum);
  }
};

}  // namespace

void run(CudaQueue& queue, const NeighboursForward& args) {
  for_cuda_dtype("neighbours_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t count = args.batch * args.grid_h * args.grid_w * 9 * args.channels;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_map(
          queue, "neighbours_forward",
          NeighboursMap<T, decltype(index)>{static_cast<const T*>(args.x), static_cast<T*>(args.y),
                                            args.grid_h, args.grid_w, args.channels},
          count,
          cuda::is_vectorizable<T>(args.x, args.channels) &&
              cuda::is_vectorizable<T>(args.y, args.channels));
    });
  });
}

void run(CudaQueue& queue, const NeighboursBackward& args) {
  for_cuda_dtype("neighbours_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t count = args.batch * args.grid_h * args.grid_w * args.channels;
    cuda::for_index(9 * count, [&](auto index) {
      cuda::launch_map(queue, "neighbours_backward",
                       NeighboursBackwardMap<T, decltype(index)>{
                           static_cast<const T*>(args.dy), static_cast<T*>(args.dx), args.grid_h,
                           args.grid_w, args.channels},
                       count,
                       cuda::is_vectorizable<T>(args.dy, args.channels) &&
                           cuda::is_vectorizable<T>(args.dx, args.channels));
    });
  });
}

}  // namespace dtn
