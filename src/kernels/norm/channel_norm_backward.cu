// Normalization along the rows, backward; see channel_norm.h for the formulas and
// channel_norm_tiles.cuh for the layout of the work.
//
// The minimum memory traffic is 3 S R C sizeof(T) bytes: x and dy are read and dx is written.
// dx_add adds S R C sizeof(T) bytes. As in the forward pass, if there are many sets, a block reads
// its tile from memory once. If there are few sets, one kernel writes the sums of each chunk of
// rows, another adds them up, and a third reads x and dy again and writes dx.
#include "kernels/cuda/partials.cuh"
#include "kernels/norm/channel_norm_tiles.cuh"

namespace dtn {
namespace {

template <class T>
struct Backward {
  ChannelTiles tiles;
  float eps;
  float share, share_dot;  // 1 / N, 1 / N'
  bool frozen, weighted_sums;
  const T* x;
  const float* weight;
  const float* bias;
  std::int64_t parameter_stride;
  bool relu;
  const float* mean;
  const float* rest;
  const float* variance;
  const T* dy;
  const T* dx_add;
  T* dx;
  float* sums;      // [S, (dy, dy xhat), C]
  float* partials;  // [S, chunks, (dy, dy xhat), C]
  float* means;     // [S, G, 2]: means of dxhat, dxhat xhat; null for single channels

  __device__ __forceinline__ std::int64_t group(std::int64_t set, std::int64_t column) const {
    return set * tiles.groups + column / tiles.group_size;
  }
  // True if the sums are not weighted yet. Each channel then multiplies by its own weight.
  __device__ __forceinline__ bool is_single() const {
    return tiles.group_size == 1 && !weighted_sums;
  }
  __device__ __forceinline__ float weight_at(std::int64_t set, std::int64_t column) const {
    return weight ? weight[set * parameter_stride + column] : 1.0f;
  }
};

// The outputs of the columns of a thread, with which `relu` masks dy. Unused without it.
template <class T, int n>
struct ReluMask {
  ChannelOutput y[n];

  __device__ __forceinline__ ReluMask(const Backward<T>& a, const TileThread<n>& at) {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      y[k] = a.relu && at.live ? channel_output(a, at.set, at.column + k) : ChannelOutput{};
    }
  }
  // Sets the gradients of outputs that are not above 0 to 0.
  __device__ __forceinline__ void apply(const float (&x)[n], float (&dy)[n]) const {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      if (fmaf(x[k] - y[k].mean, y[k].scale, y[k].offset) <= 0) dy[k] = 0;
    }
  }
};

// Writes the sums over the rows of the block to `to`, [2, C].
template <class T, int n>
__device__ __forceinline__ void gather(const Backward<T>& a, const TileThread<n>& at, float* shared,
                                       float* to) {
  float mean[n] = {}, sum[n] = {}, dot[n] = {};
#pragma unroll
  for (int k = 0; k < n; ++k) {
    if (at.live) mean[k] = a.mean[a.group(at.set, at.column + k)];
  }
  const ReluMask<T, n> mask(a, at);
  for_tile_rows<2>(a.tiles, at, [&](std::int64_t row, auto count) {
    constexpr int kCount = decltype(count)::value;
    const std::int64_t first = at.offset(a.tiles, row), step = a.tiles.row_lanes * a.tiles.channels;
    float x[kCount][n], dy[kCount][n];
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      cuda::load_values(a.x + first + j * step, x[j]);
      cuda::load_values(a.dy + first + j * step, dy[j]);
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (a.relu) mask.apply(x[j], dy[j]);
#pragma unroll
      for (int k = 0; k < n; ++k) {
        sum[k] += dy[j][k];
        dot[k] = fmaf(dy[j][k], x[j][k] - mean[k], dot[k]);
      }
    }
  });
  add_row_lanes(a.tiles, at, sum, dot, shared, [&](int j, float of_dy, float of_dot) {
    const std::int64_t column = at.first_column + j, i = a.group(at.set, column);
    const float rest = a.rest ? a.rest[i] : 0.0f;
    to[column] = of_dy;
    to[a.tiles.channels + column] =
        fmaf(-rest, of_dy, of_dot) * reciprocal_root(a.variance[i], a.eps);
  });
}

// Computes the means of one group of several channels, with one warp.
template <class T>
__device__ __forceinline__ void find_means(const Backward<T>& a, std::int64_t set,
                                           std::int64_t group) {
  const std::int64_t size = a.tiles.group_size, first = group * size;
  const float* sums = a.sums + set * 2 * a.tiles.channels;
  float sum = 0, dot = 0;
  for (std::int64_t c = first + threadIdx.x % cuda::kWarpSize; c < first + size;
       c += cuda::kWarpSize) {
    const float weight = a.weight_at(set, c);
    sum = fmaf(weight, sums[c], sum);
    dot = fmaf(weight, sums[a.tiles.channels + c], dot);
  }
  sum = cuda::warp_sum(sum), dot = cuda::warp_sum(dot);
  if (threadIdx.x % cuda::kWarpSize > 0) return;
  float* means = a.means + 2 * (set * a.tiles.groups + group);
  means[0] = sum * a.share;
  means[1] = dot * a.share_dot;
}

// Single channels, where a single row gives exactly 0:
//    dx = (dy - level) scale - (x - mean) slope
// Groups:
//    dx = dy scale - level - (x - mean) slope
struct Coefficients {
  float mean, scale, level, slope;
};

template <class T>
__device__ __forceinline__ Coefficients coefficients(const Backward<T>& a, std::int64_t set,
                                                     std::int64_t column) {
  const std::int64_t i = a.group(set, column);
  const float rstd = reciprocal_root(a.variance[i], a.eps);
  const float scale = rstd * a.weight_at(set, column);
  if (a.frozen) return {0, scale, 0, 0};
  const bool alone = a.is_single();
  const float* sums = a.sums + set * 2 * a.tiles.channels + column;
  const float sum = a.means ? a.means[2 * i] : sums[0] * a.share;
  const float dot = a.means ? a.means[2 * i + 1] : sums[a.tiles.channels] * a.share_dot;
  const float slope = dot * rstd, rest = a.rest ? a.rest[i] : 0.0f;
  const float level = fmaf(-rest, slope, sum);
  return {a.mean[i], scale, alone ? level : level * rstd, slope * (alone ? scale : rstd)};
}

template <class T, int n>
__device__ __forceinline__ void differentiate(const Backward<T>& a, const TileThread<n>& at) {
  const bool alone = a.is_single();
  Coefficients c[n];
#pragma unroll
  for (int k = 0; k < n; ++k) {
    c[k] = at.live ? coefficients(a, at.set, at.column + k) : Coefficients{};
  }
  const ReluMask<T, n> mask(a, at);
  for_tile_rows<2>(a.tiles, at, [&](std::int64_t row, auto count) {
    constexpr int kCount = decltype(count)::value;
    const std::int64_t first = at.offset(a.tiles, row), step = a.tiles.row_lanes * a.tiles.channels;
    float x[kCount][n] = {}, dy[kCount][n], add[kCount][n] = {};
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (!a.frozen || a.relu) cuda::load_values(a.x + first + j * step, x[j]);
      cuda::load_values(a.dy + first + j * step, dy[j]);
      if (a.dx_add) cuda::load_values(a.dx_add + first + j * step, add[j]);
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (a.relu) mask.apply(x[j], dy[j]);
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const float lead =
            alone ? (dy[j][k] - c[k].level) * c[k].scale : fmaf(dy[j][k], c[k].scale, -c[k].level);
        dy[j][k] = fmaf(c[k].mean - x[j][k], c[k].slope, lead) + add[j][k];
      }
      cuda::store_values(a.dx + first + j * step, dy[j]);
    }
  });
}

// Blocks: one per tile of a set.
template <class T, int n>
__global__ void __launch_bounds__(kChannelThreads)
    channel_norm_fused_backward_kernel(Backward<T> a) {
  DTN_SHARED(float, shared);
  const TileThread<n> at(a.tiles);
  gather(a, at, shared, a.sums + at.set * 2 * a.tiles.channels);
  __syncthreads();  // the sums are written
  if (a.means) {
    const std::int64_t first = at.first_column / a.tiles.group_size;
    for (int g = static_cast<int>(threadIdx.x) / cuda::kWarpSize; g < a.tiles.tile_groups;
         g += kChannelWarps) {
      if (first + g < a.tiles.groups) find_means(a, at.set, first + g);
    }
    __syncthreads();
  }
  differentiate(a, at);
}

// Blocks: [set, chunk, tile].
template <class T, int n>
__global__ void __launch_bounds__(kChannelThreads) channel_sums_kernel(Backward<T> a) {
  DTN_SHARED(float, shared);
  const TileThread<n> at(a.tiles);
  gather(a, at, shared, a.partials + (at.set * a.tiles.chunks + at.chunk) * 2 * a.tiles.channels);
}

// Adds the sums of the chunks. A block takes 32 values, and its warps take the chunks in turn.
// Blocks: [set, `count` / 32].
//    sums[s, i] = sum over the chunks of partials[s, chunk, i]
__global__ void __launch_bounds__(kChannelThreads)
    channel_add_chunks_kernel(const float* partials, std::int64_t chunks, std::int64_t count,
                              float* sums) {
  DTN_SHARED(float, shared);  // [kChannelWarps, 32]
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const unsigned spans = static_cast<unsigned>((count + cuda::kWarpSize - 1) / cuda::kWarpSize);
  const std::int64_t set = blockIdx.x / spans;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x % spans) * cuda::kWarpSize + lane;
  float sum = 0;
  if (i < count) {
#pragma unroll 4
    for (std::int64_t chunk = warp; chunk < chunks; chunk += kChannelWarps) {
      sum += partials[(set * chunks + chunk) * count + i];
    }
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (warp > 0 || i >= count) return;
  for (int w = 1; w < kChannelWarps; ++w) sum += shared[w * cuda::kWarpSize + lane];
  sums[set * count + i] = sum;
}

template <class T>
__global__ void __launch_bounds__(kChannelThreads) channel_means_kernel(Backward<T> a) {
  const std::int64_t i =
      static_cast<std::int64_t>(blockIdx.x) * kChannelWarps + threadIdx.x / cuda::kWarpSize;
  if (i < a.tiles.sets * a.tiles.groups) find_means(a, i / a.tiles.groups, i % a.tiles.groups);
}

// Blocks: [set, chunk, tile].
template <class T, int n>
__global__ void __launch_bounds__(kChannelThreads) channel_norm_dx_kernel(Backward<T> a) {
  differentiate(a, TileThread<n>(a.tiles));
}

// Adds row `which` of each set's sums to the parameter gradients of that set.
__global__ void __launch_bounds__(kChannelThreads)
    channel_add_sums_kernel(const float* sums, std::int64_t sets, std::int64_t channels, int which,
                            float* gradient) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kChannelThreads + threadIdx.x;
  if (i >= sets * channels) return;
  gradient[i] += sums[(i / channels * 2 + which) * channels + i % channels];
}

void add_gradients(CudaQueue& queue, const ChannelNormBackward& args, float* sums) {
  float* gradients[2] = {static_cast<float*>(args.dbias), static_cast<float*>(args.dweight)};
  if (args.parameter_stride == 0) {
    cuda::Partials p{sums, args.sets, args.channels, 2, {gradients[0], gradients[1]}};
    cuda::add_partials(queue, "channel_norm_add_sums", p);
    return;
  }
  const std::int64_t count = args.sets * args.channels;
  for (int which : {0, 1}) {
    if (!gradients[which]) continue;
    launch(queue, {"channel_norm_add_sums", {args.sets, args.channels}}, channel_add_sums_kernel,
           {blocks_for(count, kChannelThreads), kChannelThreads}, sums, args.sets, args.channels,
           which, gradients[which]);
  }
}

template <class T, int n>
void gather_chunks(CudaQueue& queue, const KernelName& name, Backward<T> a) {
  const ChannelTiles& t = a.tiles;
  const std::int64_t count = 2 * t.channels;
  const LaunchShape shape{blocks_for(t.blocks(), 1), kChannelThreads,
                          2 * kChannelThreads * n * sizeof(float)};
  if (t.chunks == 1) {
    a.partials = a.sums;
    return launch(queue, name, channel_sums_kernel<T, n>, shape, a);
  }
  auto partials = queue.scratch<float>(t.sets * t.chunks * count);
  a.partials = partials.get();
  launch(queue, name, channel_sums_kernel<T, n>, shape, a);
  const std::int64_t spans = (count + cuda::kWarpSize - 1) / cuda::kWarpSize;
  launch(queue, name, channel_add_chunks_kernel,
         {blocks_for(t.sets * spans, 1), kChannelThreads, kChannelThreads * sizeof(float)},
         a.partials, static_cast<std::int64_t>(t.chunks), count, a.sums);
}

template <class T, int n>
void differentiate(CudaQueue& queue, const KernelName& name, const Backward<T>& a) {
  const ChannelTiles& t = a.tiles;
  if (a.means) {
    launch(queue, name, channel_means_kernel<T>,
           {blocks_for(t.sets * t.groups, kChannelWarps), kChannelThreads}, a);
  }
  launch(queue, name, channel_norm_dx_kernel<T, n>, {blocks_for(t.blocks(), 1), kChannelThreads},
         a);
}

template <class T, int n>
void backward(CudaQueue& queue, Backward<T> a, const ChannelNormBackward& args) {
  const KernelName name{"channel_norm_backward",
                        {a.tiles.sets, a.tiles.rows, a.tiles.channels, a.tiles.groups}};
  const bool whole = args.part == ChannelNormPart::kWhole;
  const bool gradients = args.part != ChannelNormPart::kApplication && (args.dweight || args.dbias);
  const bool dx = args.dx && args.part != ChannelNormPart::kStatistics;
  const bool sums =
      args.part == ChannelNormPart::kStatistics || gradients || (whole && dx && !a.frozen);
  auto own_sums = queue.scratch<float>(a.sums || !sums ? 1 : args.sets * 2 * args.channels);
  if (!a.sums) a.sums = own_sums.get();
  const bool grouped = dx && !a.frozen && a.tiles.group_size > 1;
  auto means = queue.scratch<float>(grouped ? 2 * args.sets * args.groups : 1);
  if (grouped) a.means = means.get();

  if (sums && dx && is_fused(a.tiles)) {
    launch(
        queue, name, channel_norm_fused_backward_kernel<T, n>,
        {blocks_for(a.tiles.blocks(), 1), kChannelThreads, 2 * kChannelThreads * n * sizeof(float)},
        a);
  } else {
    cut_into_chunks(a.tiles);
    if (sums) gather_chunks<T, n>(queue, name, a);
    if (dx) differentiate<T, n>(queue, name, a);
  }
  if (gradients) add_gradients(queue, args, a.sums);
}

}  // namespace

void run(CudaQueue& queue, const ChannelNormBackward& args) {
  for_cuda_dtype("channel_norm_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.is_empty()) return;
    Backward<T> a{};
    a.eps = static_cast<float>(args.eps);
    const std::int64_t rows = args.total_rows ? args.total_rows : args.rows;
    const std::int64_t values = rows * (args.channels / args.groups);
    a.share = 1 / static_cast<float>(values);
    a.share_dot = 1 / static_cast<float>(args.unbiased && values > 1 ? values - 1 : values);
    a.frozen = args.frozen;
    a.weighted_sums = args.weighted_sums;
    a.x = static_cast<const T*>(args.x);
    a.weight = static_cast<const float*>(args.weight);
    a.bias = static_cast<const float*>(args.bias);
    a.parameter_stride = args.parameter_stride;
    a.relu = args.relu;
    a.mean = static_cast<const float*>(args.mean);
    a.rest = static_cast<const float*>(args.mean_rest);
    a.variance = static_cast<const float*>(args.variance);
    a.dy = static_cast<const T*>(args.dy);
    a.dx_add = static_cast<const T*>(args.dx_add);
    a.dx = static_cast<T*>(args.dx);
    a.sums = static_cast<float*>(args.sums);
    for_vector_width<T>(args.channels, {args.x, args.dy, args.dx_add, args.dx}, [&](auto n) {
      a.tiles = channel_tiles(args, n, sizeof(T));
      backward<T, n>(queue, a, args);
    });
  });
}

}  // namespace dtn
