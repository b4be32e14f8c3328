// Normalization along the rows, forward; see channel_norm.h for the formulas and
// channel_norm_tiles.cuh for the layout of the work.
//
// The minimum memory traffic is 2 S R C sizeof(T) bytes: x is read and y is written. If there are
// many sets, a block takes a tile of one set (25 KB for 196 rows of a cache line) and reads it
// twice. The second read comes from the first- or second-level cache, so x is read from memory
// once. If there are few sets, such as the one of BatchNorm, the rows are split into chunks. The
// first kernel writes the moments of each chunk, 12 C bytes for 64 rows or more. The second kernel
// merges them, and the third reads x again and writes y. The traffic is then at most about 1.5
// times the minimum, and less if x fits in the second-level cache.
//
// Differences are taken from a pivot: see channel_norm.cpp.
#include "kernels/norm/channel_norm.h"
#include "kernels/norm/channel_norm_tiles.cuh"

namespace dtn {
namespace {

template <class T>
struct Forward {
  ChannelTiles tiles;
  float eps;
  float divisor;  // of the sum of squares
  const T* x;
  const float* weight;
  const float* bias;
  std::int64_t parameter_stride;
  bool relu;
  T* y;
  float* mean;
  float* rest;
  float* variance;
  float* moments;  // [S, chunks, (mean, squares, pivot), C]; unused if fused
};

// Moments of `count` values: the mean, relative to the pivot, and the sum of the squared
// differences from the mean.
struct Moments {
  float pivot, mean, squares, count;

  __device__ __forceinline__ void merge(const Moments& other) {
    const float total = count + other.count;
    if (other.count == 0) return;
    if (count == 0) {
      *this = other;
      return;
    }
    const float share = other.count / total;
    const float apart = (other.pivot - pivot) + (other.mean - mean);
    mean = fmaf(apart, share, mean);
    squares = squares + other.squares + apart * apart * (share * count);
    count = total;
  }
};

// Returns the moments of the whole warp to lane 0.
__device__ __forceinline__ Moments warp_merge(Moments m) {
#pragma unroll
  for (int offset = cuda::kWarpSize / 2; offset > 0; offset /= 2) {
    m.merge({__shfl_down_sync(cuda::kWholeWarp, m.pivot, offset),
             __shfl_down_sync(cuda::kWholeWarp, m.mean, offset),
             __shfl_down_sync(cuda::kWholeWarp, m.squares, offset),
             __shfl_down_sync(cuda::kWholeWarp, m.count, offset)});
  }
  return m;
}

template <class T>
__device__ __forceinline__ void store_statistics(const Forward<T>& a, std::int64_t i,
                                                 const Moments& m) {
  // mean + rest = pivot + m.mean exactly.
  const float mean = m.pivot + m.mean, of_mean = mean - m.pivot;
  a.mean[i] = mean;
  a.rest[i] = (m.pivot - (mean - of_mean)) + (m.mean - of_mean);
  a.variance[i] = m.squares / a.divisor;
}

template <class T, int n>
__device__ __forceinline__ void apply(const Forward<T>& a, const TileThread<n>& at) {
  float mean[n], scale[n], offset[n];
#pragma unroll
  for (int k = 0; k < n; ++k) {
    const ChannelOutput c = at.live ? channel_output(a, at.set, at.column + k) : ChannelOutput{};
    mean[k] = c.mean, scale[k] = c.scale, offset[k] = c.offset;
  }
  for_tile_rows<4>(a.tiles, at, [&](std::int64_t row, auto count) {
    const std::int64_t first = at.offset(a.tiles, row), step = a.tiles.row_lanes * a.tiles.channels;
    constexpr int kCount = decltype(count)::value;
    float v[kCount][n];
#pragma unroll
    for (int j = 0; j < kCount; ++j) cuda::load_values(a.x + first + j * step, v[j]);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
#pragma unroll
      for (int k = 0; k < n; ++k) {
        v[j][k] = fmaf(v[j][k] - mean[k], scale[k], offset[k]);
        if (a.relu && v[j][k] <= 0) v[j][k] = 0;
      }
      cuda::store_values(a.y + first + j * step, v[j]);
    }
  });
}

// Computes the moments of the tile's columns over the rows of the block. Calls finish(j, moments)
// for column j of the tile.
template <class T, int n, class Finish>
__device__ __forceinline__ void gather(const Forward<T>& a, const TileThread<n>& at, float* shared,
                                       const Finish& finish) {
  float pivot[n] = {}, sum[n] = {}, squares[n] = {};
  const std::int64_t rows = at.end - at.begin;
  if (at.live) {
    cuda::load_values(a.x + at.offset(a.tiles, at.begin), pivot);
    if (rows >= 4) {  // one of the two middle values of four rows of the chunk
      const std::int64_t step = rows / 4;
      float v[3][n];
#pragma unroll
      for (int j = 0; j < 3; ++j) {
        cuda::load_values(a.x + at.offset(a.tiles, at.begin + (j + 1) * step), v[j]);
      }
#pragma unroll
      for (int k = 0; k < n; ++k) {
        pivot[k] = fmaxf(fminf(pivot[k], v[0][k]), fminf(v[1][k], v[2][k]));
      }
    }
  }
  for_tile_rows<4>(a.tiles, at, [&](std::int64_t row, auto count) {
    const std::int64_t first = at.offset(a.tiles, row), step = a.tiles.row_lanes * a.tiles.channels;
    constexpr int kCount = decltype(count)::value;
    float v[kCount][n];
#pragma unroll
    for (int j = 0; j < kCount; ++j) cuda::load_values(a.x + first + j * step, v[j]);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const float d = v[j][k] - pivot[k];
        sum[k] += d;
        squares[k] = fmaf(d, d, squares[k]);
      }
    }
  });
  float* pivots = shared + 2 * kChannelThreads * n;
  if (at.row_lane == 0) cuda::store_values(pivots + at.lane * n, pivot);
  const float count = static_cast<float>(rows), share = 1 / count;
  add_row_lanes(a.tiles, at, sum, squares, shared, [&](int j, float total, float total_squares) {
    const float mean = total * share, left = fmaf(-total, mean, total_squares);
    finish(j, Moments{pivots[j], mean, left < 0 ? 0 : left, count});
  });
}

template <int n>
std::size_t shared_bytes(const ChannelTiles& t) {
  return static_cast<std::size_t>(2 * kChannelThreads * n + t.lanes * n) * sizeof(float);
}

// Merges the moments of `columns` columns in all chunks of rows. Lane 0 of the warp gets the
// result.
__device__ __forceinline__ Moments merge_columns(const ChannelTiles& t, const float* moments,
                                                 std::int64_t stride, std::int64_t columns) {
  const std::int64_t lane = threadIdx.x % cuda::kWarpSize;
  Moments all{};
  for (std::int64_t c = lane; c < columns; c += cuda::kWarpSize) {
    for (std::int64_t chunk = 0; chunk < t.chunks; ++chunk) {
      const float* m = moments + chunk * 3 * stride + c;
      const std::int64_t left = t.rows - chunk * t.chunk_rows;
      const std::int64_t count = left < t.chunk_rows ? left : t.chunk_rows;
      all.merge({m[2 * stride], m[0], m[stride], static_cast<float>(count)});
    }
  }
  return warp_merge(all);
}

// Blocks: one per tile of a set.
template <class T, int n>
__global__ void __launch_bounds__(kChannelThreads) channel_norm_fused_kernel(Forward<T> a) {
  DTN_SHARED(float, shared);
  const TileThread<n> at(a.tiles);
  const std::int64_t groups = a.tiles.groups, size = a.tiles.group_size;
  if (size == 1) {
    gather(a, at, shared, [&](int j, const Moments& m) {
      store_statistics(a, at.set * groups + at.first_column + j, m);
    });
  } else {
    // The moments of a column overwrite its sums. Its pivot stays where gather() stored it.
    constexpr std::int64_t kStride = kChannelThreads * n;
    gather(a, at, shared, [&](int j, const Moments& m) {
      shared[j] = m.mean;
      shared[kStride + j] = m.squares;
    });
    __syncthreads();
    const std::int64_t first_group = at.first_column / size;
    for (int g = static_cast<int>(threadIdx.x) / cuda::kWarpSize; g < a.tiles.tile_groups;
         g += kChannelWarps) {
      if (first_group + g >= groups) break;
      const Moments all = merge_columns(a.tiles, shared + g * size, kStride, size);
      if (threadIdx.x % cuda::kWarpSize == 0) {
        store_statistics(a, at.set * groups + first_group + g, all);
      }
    }
  }
  __syncthreads();  // the statistics are written
  apply(a, at);
}

// Blocks: [set, chunk, tile].
template <class T, int n>
__global__ void __launch_bounds__(kChannelThreads) channel_moments_kernel(Forward<T> a) {
  DTN_SHARED(float, shared);
  const TileThread<n> at(a.tiles);
  const std::int64_t channels = a.tiles.channels;
  float* to = a.moments + (at.set * a.tiles.chunks + at.chunk) * 3 * channels + at.first_column;
  gather(a, at, shared, [&](int j, const Moments& m) {
    to[j] = m.mean;
    to[channels + j] = m.squares;
    to[2 * channels + j] = m.pivot;
  });
}

// Computes the statistics of single channels from the moments of the chunks. A block takes 32
// columns of a set, and its warps take the chunks in turn. Blocks: [set, C / 32].
template <class T>
__global__ void __launch_bounds__(kChannelThreads) channel_statistics_kernel(Forward<T> a) {
  DTN_SHARED(Moments, shared);  // [kChannelWarps, 32]
  const ChannelTiles& t = a.tiles;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const unsigned spans =
      static_cast<unsigned>((t.channels + cuda::kWarpSize - 1) / cuda::kWarpSize);
  const std::int64_t set = blockIdx.x / spans;
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x % spans) * cuda::kWarpSize + lane;
  Moments all{};
  if (column < t.channels) {
    for (std::int64_t chunk = warp; chunk < t.chunks; chunk += kChannelWarps) {
      const float* m = a.moments + (set * t.chunks + chunk) * 3 * t.channels + column;
      const std::int64_t left = t.rows - chunk * t.chunk_rows;
      const std::int64_t count = left < t.chunk_rows ? left : t.chunk_rows;
      all.merge({m[2 * t.channels], m[0], m[t.channels], static_cast<float>(count)});
    }
  }
  shared[threadIdx.x] = all;
  __syncthreads();
  if (warp > 0 || column >= t.channels) return;
  for (int w = 1; w < kChannelWarps; ++w) all.merge(shared[w * cuda::kWarpSize + lane]);
  store_statistics(a, set * t.groups + column, all);
}

// Computes the statistics of groups, one warp per group.
template <class T>
__global__ void __launch_bounds__(kChannelThreads) channel_group_statistics_kernel(Forward<T> a) {
  const ChannelTiles& t = a.tiles;
  const std::int64_t i =
      static_cast<std::int64_t>(blockIdx.x) * kChannelWarps + threadIdx.x / cuda::kWarpSize;
  if (i >= t.sets * t.groups) return;
  const std::int64_t set = i / t.groups, first = i % t.groups * t.group_size;
  const Moments all = merge_columns(t, a.moments + set * t.chunks * 3 * t.channels + first,
                                    t.channels, t.group_size);
  if (threadIdx.x % cuda::kWarpSize == 0) store_statistics(a, i, all);
}

// Blocks: [set, chunk, tile].
template <class T, int n>
__global__ void __launch_bounds__(kChannelThreads) channel_norm_apply_kernel(Forward<T> a) {
  apply(a, TileThread<n>(a.tiles));
}

template <class T>
void find_statistics(CudaQueue& queue, const KernelName& name, const Forward<T>& a) {
  const ChannelTiles& t = a.tiles;
  if (t.group_size == 1) {
    const std::int64_t spans = (t.channels + cuda::kWarpSize - 1) / cuda::kWarpSize;
    launch(queue, name, channel_statistics_kernel<T>,
           {blocks_for(t.sets * spans, 1), kChannelThreads, kChannelThreads * sizeof(Moments)}, a);
  } else {
    launch(queue, name, channel_group_statistics_kernel<T>,
           {blocks_for(t.sets * t.groups, kChannelWarps), kChannelThreads}, a);
  }
}

template <class T, int n>
void forward(CudaQueue& queue, Forward<T> a, ChannelNormPart part) {
  const KernelName name{"channel_norm_forward",
                        {a.tiles.sets, a.tiles.rows, a.tiles.channels, a.tiles.groups}};
  const std::size_t bytes = shared_bytes<n>(a.tiles);
  if (part == ChannelNormPart::kWhole && is_fused(a.tiles)) {
    launch(queue, name, channel_norm_fused_kernel<T, n>,
           {blocks_for(a.tiles.blocks(), 1), kChannelThreads, bytes}, a);
    return;
  }
  cut_into_chunks(a.tiles);
  const dim3 grid = blocks_for(a.tiles.blocks(), 1);
  if (part != ChannelNormPart::kApplication) {
    auto moments = queue.scratch<float>(a.tiles.sets * a.tiles.chunks * 3 * a.tiles.channels);
    a.moments = moments.get();
    launch(queue, name, channel_moments_kernel<T, n>, {grid, kChannelThreads, bytes}, a);
    find_statistics(queue, name, a);
  }
  if (part != ChannelNormPart::kStatistics) {
    launch(queue, name, channel_norm_apply_kernel<T, n>, {grid, kChannelThreads}, a);
  }
}

__global__ void __launch_bounds__(kChannelThreads)
    move_running_statistics_kernel(MoveRunningStatistics args, float momentum, float unbiased) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kChannelThreads + threadIdx.x;
  if (c >= args.channels) return;
  auto read = [c](const void* p) { return static_cast<const float*>(p)[c]; };
  float& mean = static_cast<float*>(args.next_mean)[c];
  float& variance = static_cast<float*>(args.next_variance)[c];
  mean += momentum * ((read(args.mean) - mean) + read(args.mean_rest));
  variance += momentum * (unbiased * read(args.variance) - variance);
}

}  // namespace

void run(CudaQueue& queue, const ChannelNormForward& args) {
  for_cuda_dtype("channel_norm_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.is_empty()) return;
    Forward<T> a{};
    a.eps = static_cast<float>(args.eps);
    const std::int64_t values = args.rows * (args.channels / args.groups);
    a.divisor = static_cast<float>(args.unbiased && values > 1 ? values - 1 : values);
    a.x = static_cast<const T*>(args.x);
    a.weight = static_cast<const float*>(args.weight);
    a.bias = static_cast<const float*>(args.bias);
    a.parameter_stride = args.parameter_stride;
    a.relu = args.relu;
    a.y = static_cast<T*>(args.y);
    a.mean = static_cast<float*>(args.mean);
    a.rest = static_cast<float*>(args.mean_rest);
    a.variance = static_cast<float*>(args.variance);
    for_vector_width<T>(args.channels, {args.x, args.y}, [&](auto n) {
      a.tiles = channel_tiles(args, n, sizeof(T));
      forward<T, n>(queue, a, args.part);
    });
  });
}

void run(CudaQueue& queue, const MoveRunningStatistics& args) {
  DTN_CHECK(args.dtype == DType::kFloat32, "move_running_statistics: ", name_of(args.dtype),
            " is not computed on CUDA devices; float32 is");
  if (args.channels == 0 || args.rows == 0) return;
  const float n = static_cast<float>(args.rows);
  launch(queue, {"move_running_statistics", {args.channels}}, move_running_statistics_kernel,
         {blocks_for(args.channels, kChannelThreads), kChannelThreads}, args,
         static_cast<float>(args.momentum), args.rows > 1 ? n / (n - 1) : n);
}

}  // namespace dtn
