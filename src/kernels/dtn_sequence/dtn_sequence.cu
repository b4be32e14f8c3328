// Forward pass of DTN on sequences on a CUDA device; see dtn_sequence.h for the formulas and
// dtn_sequence_cuda.cuh for the division of work.
//
// The kernels for grids (dtn_norm_prepare.cu) compute bases and token statistics. One block
// computes the pivots of 32 channels of a sample, and for a_d = 0 their moments. It reads the
// sample once or twice. Then each warp reads the windows of its 8 tokens and writes y. Each pair of
// a token and a token that it reads takes 4 floating-point operations. A window of w tokens takes
// w + 7 reads of 128 bytes for 8 tokens. Nearly all of them hit the first-level cache, because the
// 64 tokens of a block read mostly the same tokens. With 13 taps an element takes 80 operations and
// 3 reads. Memory traffic, about three times x and once y, then takes as long as arithmetic. With
// 69 taps or more, arithmetic dominates. A fifth of it computes weights: about 15 instructions for
// a weight, which serves 32 channels.
#include "kernels/dtn_sequence/dtn_sequence_cuda.cuh"

namespace dtn {
namespace line {
namespace {

constexpr int kPivotThreads = 512;
constexpr int kPivotWarps = kPivotThreads / cuda::kWarpSize;

// Sums each lane's values over the warps, in order. `room` is shared memory [warps, 32]; do not
// write to it again before a barrier.
__device__ __forceinline__ float add_warps(float mine, const Slice& s, float* room) {
  room[s.warp * kWidth + s.lane] = mine;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < kPivotWarps; ++w) sum += room[w * kWidth + s.lane];
  return sum;
}

// Computes the pivots. A block has a slice with all tokens of a sample.
template <class T, bool kOfficial>
__global__ void __launch_bounds__(kPivotThreads) dtn_sequence_pivots_kernel(Line line) {
  DTN_SHARED(float, room);
  const Slice s(line, blockIdx.x);
  if (s.tokens == 0) return;
  // Relative to the first value, to keep precision if the mean is much larger than the spread.
  const float first = Values<T, kOfficial>(line, s, 0)(0);
  const Values<T, kOfficial> values(line, s, first);
  float sum = 0;
#pragma unroll 4
  for (int t = s.warp; t < s.tokens; t += kPivotWarps) sum += values(t);
  sum = add_warps(sum, s, room);
  if (s.warp == 0 && s.active) {
    line.pivot[s.of_channel(line)] = first + sum / static_cast<float>(s.tokens);
  }
}

// Computes the moments for a_d = 0. A block has a slice with all tokens of a sample.
template <class T, bool kOfficial, int kMoments>
__global__ void __launch_bounds__(kPivotThreads) dtn_sequence_means_kernel(Line line, Means means) {
  DTN_SHARED(float, room);
  const Slice s(line, blockIdx.x);
  const Window w(line, s.head);
  if (w.kind != Kind::kMean || s.tokens == 0) return;
  const int n = s.tokens, thread = static_cast<int>(threadIdx.x);
  float weight_sum = 0, place_sum = 0;
#pragma unroll 1
  for (int j = thread; j < n; j += kPivotThreads) {
    const float weight = mean_weight(w, j, n);
    weight_sum += weight;
    place_sum += weight * static_cast<float>(j);
  }
  const float scale = 1 / cuda::block_sum(weight_sum, room);
  // Relative to the middle, to keep precision if one token has almost all of the weight.
  const float middle = rintf(cuda::block_sum(place_sum, room) * scale);
  float offset = 0, square = 0;
#pragma unroll 1
  for (int j = thread; j < n; j += kPivotThreads) {
    const float t = static_cast<float>(j) - middle, share = mean_weight(w, j, n) * scale;
    offset += share * t;
    square += share * t * t;
  }
  offset = cuda::block_sum(offset, room);
  square = cuda::block_sum(square, room);

  const Values<T, kOfficial> values(line, s, line.pivot[s.of_channel(line)]);
  float sums[2][kMoments] = {};
#pragma unroll 2
  for (int j = s.warp; j < n; j += kPivotWarps) {
    const float x = values(j), t = static_cast<float>(j) - middle;
    float weighted = mean_weight(w, j, n) * scale * x;
#pragma unroll
    for (int k = 0; k < kMoments; ++k) {
      sums[0][k] += weighted;
      sums[1][k] += weighted * x;
      weighted *= t;
    }
  }
  const std::int64_t plane = line.sizes.batch * line.sizes.channels;
#pragma unroll
  for (int i = 0; i < 2 * kMoments; ++i) {
    const float sum = add_warps(sums[i / kMoments][i % kMoments], s, room);
    if (s.warp == 0 && s.active) means.sums[i * plane + s.of_channel(line)] = sum;
    __syncthreads();
  }
  if (thread == 0 && s.part == 0) {
    const std::int64_t step = line.sizes.batch * line.sizes.heads;
    float* to = means.shares + s.of_head(line);
    to[0] = scale, to[step] = middle, to[2 * step] = offset, to[3 * step] = square;
  }
}

struct Outputs {
  const float *bases, *token_mean, *token_var, *lambda_mean, *lambda_var, *weight, *bias;
  void* y;
};

template <class T, bool kOfficial>
__global__ void __launch_bounds__(kThreads, 2)
    dtn_sequence_forward_kernel(Line line, Means means, Outputs out) {
  DTN_SHARED(WarpRoom<1>, rooms);
  const Slice s(line, blockIdx.x / line.tiles);
  const int first = static_cast<int>(blockIdx.x % line.tiles) * kTile + s.warp * kRows;
  const int n = s.tokens;
  const std::int64_t step = line.sizes.channels;
  T* y = static_cast<T*>(out.y) + s.start(line);
  for (int t = std::max(first, n); t < std::min(first + kRows, line.sizes.tokens); ++t) {
    if (s.active) y[t * step] = cuda::from_float<T>(0.0f);
  }
  if (first >= n) return;

  const Window w(line, s.head);
  const float pivot = line.pivot[s.of_channel(line)];
  const Values<T, kOfficial> values(line, s, pivot);
  float m1[kRows], m2[kRows];
  if (w.kind == Kind::kMean) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      m1[r] = means.sum(line, s, 1, 0, 0);
      m2[r] = means.sum(line, s, 1, 1, 0);
    }
  } else {
    RowSums<1> sums;
    add_moments(w, first, n, values, rooms[s.warp], sums);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float scale = 1 / __shfl_sync(cuda::kWholeWarp, sums.weight, r);
      m1[r] = sums.first[0][r] * scale;
      m2[r] = sums.second[0][r] * scale;
    }
  }

  const float mean_share = out.lambda_mean[s.head], var_share = out.lambda_var[s.head];
  const float weight = out.weight[s.channel], bias = out.bias[s.channel];
  const float* token_mean = out.token_mean + s.sample * line.sizes.tokens;
  const float* token_var = out.token_var + s.sample * line.sizes.tokens;
  const float offset = out.bases[s.sample] - pivot;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int t = first + r;
    if (t >= n) break;
    const float m = m1[r];
    float v = m2[r] - m * m;
    if (!kOfficial && v < 0) v = 0;
    const float mu = mean_share * (token_mean[t] + offset) + (1 - mean_share) * m;
    const float var = (1 - var_share) * v + (var_share * token_var[t] + line.sizes.eps);
    const float xhat = (values(t) - mu) * rsqrtf(var);
    if (s.active) y[t * step] = cuda::from_float<T>(xhat * weight + bias);
  }
}

template <class T, bool kOfficial>
void run_forward(CudaQueue& queue, const DtnNormForward& args, const Line& line,
                 const float* bases) {
  const LaunchShape of_slices{blocks_for(line.slices(), 1), kPivotThreads,
                              kPivotThreads * sizeof(float)};
  launch(queue, kernel_name("dtn_sequence_pivots", line), dtn_sequence_pivots_kernel<T, kOfficial>,
         of_slices, line);
  const MeansMemory means = make_means(queue, line, args, 1);
  auto pointer = [](const void* p) { return static_cast<const float*>(p); };
  const Outputs out{bases,
                    pointer(args.token_mean),
                    pointer(args.token_var),
                    pointer(args.lambda_mean),
                    pointer(args.lambda_var),
                    pointer(args.weight),
                    pointer(args.bias),
                    args.y};
  launch(queue, kernel_name("dtn_sequence_forward", line),
         dtn_sequence_forward_kernel<T, kOfficial>,
         {blocks_for(line.slices() * line.tiles, 1), kThreads, kWarps * sizeof(WarpRoom<1>)}, line,
         means.means, out);
}

}  // namespace

MeansMemory make_means(CudaQueue& queue, const Line& line, const DtnNormArguments& args,
                       int moments) {
  const std::int64_t sums = 2 * moments * line.sizes.batch * line.sizes.channels;
  MeansMemory made{queue.scratch<float>(sums + 4 * line.sizes.batch * line.sizes.heads), {}};
  made.means = {made.memory.get(), made.memory.get() + sums};
  const LaunchShape shape{blocks_for(line.slices(), 1), kPivotThreads,
                          kPivotThreads * sizeof(float)};
  for_dtn_variant("dtn_sequence_means", args, [&]<class T, bool kOfficial>() {
    auto launch_kernel = [&](auto kernel) {
      launch(queue, kernel_name("dtn_sequence_means", line), kernel, shape, line, made.means);
    };
    moments == 1 ? launch_kernel(dtn_sequence_means_kernel<T, kOfficial, 1>)
                 : launch_kernel(dtn_sequence_means_kernel<T, kOfficial, 3>);
  });
  return made;
}

}  // namespace line

void run(CudaQueue& queue, const DtnSequenceForward& args) {
  const DtnNormForward& norm = args.norm;
  line::check(norm);
  if (norm.is_empty()) return;
  const DtnPrepared prepared = prepare(queue, norm, 0, 0);
  token_statistics(queue, norm, prepared.bases.get());
  const line::Line line(args);
  for_dtn_variant("dtn_sequence_forward", norm, [&]<class T, bool kOfficial>() {
    line::run_forward<T, kOfficial>(queue, norm, line, prepared.bases.get());
  });
}

}  // namespace dtn
