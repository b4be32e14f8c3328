// PowerNorm, forward; see power_norm.h for the formulas.
//
// A warp holds a row in registers. One pass over x computes the sums of squares and moves C
// sizeof(T) bytes per row. In it, each block takes a chunk of rows that depends only on the shape,
// and writes one row of partial sums. A second pass computes y and moves 2 C sizeof(T) bytes per
// row. It computes the factors of the groups again. Between the two passes, one thread per channel
// computes psi.
//
// Rows that do not fit in registers go through device memory: first the factors of all groups, then
// one thread per column.
#include <algorithm>

#include "kernels/cuda/partials.cuh"
#include "kernels/norm/power_norm_groups.cuh"
#include "kernels/norm/power_norm_long.cuh"

namespace dtn {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / cuda::kWarpSize;
constexpr int kMinRows = 32;  // per chunk, 8 per warp

template <class T>
struct Forward {
  std::int64_t rows, channels;
  PowerNormGroups groups;
  const T* x;
  const float* weight;
  const float* bias;
  const float* rpsi;
  T* y;
  std::int64_t rows_per_chunk;
  float* partials;  // [chunks, C]
};

// Blocks: one per chunk of rows.
template <class T, int kValues, bool kWide>
__global__ void __launch_bounds__(kThreads) power_norm_squares_kernel(Forward<T> a) {
  using Row = cuda::LaneValues<T, kValues, kWide>;
  constexpr int kRun = Row::kRun;
  DTN_SHARED(float, shared);  // group sums of the kWarps warps; at the end [kWarps, C]
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const int channels = static_cast<int>(a.channels);
  const std::int64_t begin = blockIdx.x * a.rows_per_chunk;
  const std::int64_t left = a.rows - begin;
  const std::int64_t end = begin + (left < a.rows_per_chunk ? left : a.rows_per_chunk);
  const RunGroups<Row, kValues> group(a.groups, lane, channels);

  float sums[kValues] = {};
  for (std::int64_t row = begin + warp; row < end; row += kWarps) {
    Row x;
    x.load(a.x + row * a.channels, lane, channels);
    const float* factors = group_factors<Row, kValues>(a.groups, x, lane, channels,
                                                       shared + warp * a.groups.room(1, 1));
#pragma unroll
    for (int i = 0; i < kValues; i += kRun) {
      const float factor = factors[group.of[i / kRun]];
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        const float z0 = x[i + k] * factor;
        sums[i + k] = fmaf(z0, z0, sums[i + k]);
      }
    }
  }

  __syncthreads();  // the group sums are no longer needed
  Row::store_floats(shared + warp * channels, lane, channels, sums);
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < channels; c += kThreads) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shared[w * channels + c];
    a.partials[blockIdx.x * a.channels + c] = sum;
  }
}

// One warp per row.
template <class T, int kValues, bool kWide>
__global__ void __launch_bounds__(kThreads) power_norm_apply_kernel(Forward<T> a) {
  using Row = cuda::LaneValues<T, kValues, kWide>;
  constexpr int kRun = Row::kRun;
  DTN_SHARED(float, shared);
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const int channels = static_cast<int>(a.channels);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
  if (row >= a.rows) return;  // the whole warp returns
  const RunGroups<Row, kValues> group(a.groups, lane, channels);
  Row x;
  x.load(a.x + row * a.channels, lane, channels);
  const float* factors =
      group_factors<Row, kValues>(a.groups, x, lane, channels, shared + warp * a.groups.room(1, 1));
#pragma unroll
  for (int i = 0; i < kValues; i += kRun) {
    const int c = Row::column(lane, i);
    if (c >= channels) continue;
    float weight[kRun], rpsi[kRun], bias[kRun], y[kRun];
    Row::load_float_run(a.weight + c, weight);
    Row::load_float_run(a.rpsi + c, rpsi);
    Row::load_float_run(a.bias + c, bias);
    const float factor = factors[group.of[i / kRun]];
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      y[k] = fmaf(x[i + k] * factor, weight[k] * rpsi[k], bias[k]);
    }
    Row::store_run(a.y + row * a.channels + c, y);
  }
}

// Long rows, one thread per column. Writes the partial sums (kSquares) or y.
// Blocks: [chunks, C / kThreads].
template <class T, bool kSquares>
__global__ void __launch_bounds__(kThreads)
    power_norm_columns_kernel(Forward<T> a, const float* factors) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (c >= a.channels) return;
  const std::int64_t group = c / (a.channels / a.groups.groups);
  const float scale = kSquares ? 0.0f : a.weight[c] * a.rpsi[c];
  const float shift = kSquares ? 0.0f : a.bias[c];
  const std::int64_t begin = blockIdx.x * a.rows_per_chunk;
  float sum = 0;
  for (std::int64_t r = begin; r < begin + a.rows_per_chunk && r < a.rows; ++r) {
    const float z0 = cuda::to_float(a.x[r * a.channels + c]) * factors[r * a.groups.groups + group];
    if constexpr (kSquares) {
      sum = fmaf(z0, z0, sum);
    } else {
      a.y[r * a.channels + c] = cuda::from_float<T>(fmaf(z0, scale, shift));
    }
  }
  if constexpr (kSquares) a.partials[blockIdx.x * a.channels + c] = sum;
}

struct AssignTotal {
  float* total;
  __device__ __forceinline__ bool wants(int) const { return true; }
  __device__ __forceinline__ void operator()(int, std::int64_t column, float sum) const {
    total[column] = sum;
  }
};

// One thread per channel.
__global__ void __launch_bounds__(kThreads) power_norm_psi_kernel(PowerNormForward a) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= a.shape.channels) return;
  float& rpsi = static_cast<float*>(a.rpsi)[c];
  const float running = static_cast<const float*>(a.running_phi)[c];
  const float eps = static_cast<float>(a.shape.eps);
  if (!a.squares) {
    rpsi = 1.0f / sqrtf(running + eps);
    return;
  }
  const float iteration = *static_cast<const float*>(a.iterations) + 1;
  const float warmup = static_cast<float>(a.warmup), alpha = static_cast<float>(a.alpha);
  const float inverse_count = a.count > 0 ? 1.0f / static_cast<float>(a.count) : 0.0f;
  const float phi = static_cast<const float*>(a.squares)[c] * inverse_count;
  rpsi = 1.0f / sqrtf((iteration <= warmup ? phi : running) + eps);
  static_cast<float*>(a.power)[c] = phi * rpsi * rpsi;
  if (!a.next_running_phi) return;
  float& next = static_cast<float*>(a.next_running_phi)[c];
  float moved = next;
  if (iteration < warmup) moved += (phi - moved) / iteration;
  next = fmaf(alpha, moved, (1.0f - alpha) * phi);
  if (c == 0) *static_cast<float*>(a.next_iterations) = iteration;
}

template <class T>
Forward<T> forward_arguments(const PowerNormShape& s, const void* x) {
  Forward<T> a{};
  a.rows = s.rows, a.channels = s.channels;
  a.groups = power_norm_groups(s, 1);
  a.x = static_cast<const T*>(x);
  a.rows_per_chunk = cuda::rows_per_chunk(s.rows, kMinRows, kWarps);
  return a;
}

}  // namespace

void run(CudaQueue& queue, const PowerNormSquares& args) {
  const PowerNormShape& s = args.shape;
  for_cuda_dtype("power_norm_squares", s.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (s.rows == 0 || s.channels == 0) return;
    Forward<T> a = forward_arguments<T>(s, args.x);
    const std::int64_t chunks = (s.rows + a.rows_per_chunk - 1) / a.rows_per_chunk;
    auto partials = queue.scratch<float>(chunks * s.channels);
    a.partials = partials.get();
    const KernelName kernel{"power_norm_squares", {s.rows, s.channels, s.groups}};
    const bool wide = groups_are_wide<T>(s, {a.x});
    if (is_held(s.channels, wide)) {
      for_held_row(s.channels, wide, [&](auto values, auto is_wide) {
        a.groups = power_norm_groups(s, cuda::LaneValues<T, values, is_wide>::kRun);
        const std::int64_t room = std::max<std::int64_t>(a.groups.room(1, 1), s.channels);
        launch(queue, kernel, power_norm_squares_kernel<T, values, is_wide>,
               {blocks_for(chunks, 1), kThreads,
                static_cast<std::size_t>(kWarps * room) * sizeof(float)},
               a);
      });
    } else {
      const auto factors = long_factors<T>(queue, s, a.x);
      const dim3 grid(static_cast<unsigned>(chunks), blocks_for(s.channels, kThreads).x);
      launch(queue, kernel, power_norm_columns_kernel<T, true>, {grid, kThreads}, a, factors.get());
    }
    cuda::add_partials(queue, "power_norm_add_squares",
                       cuda::PartialSums{a.partials, chunks, s.channels, 1},
                       AssignTotal{static_cast<float*>(args.squares)});
  });
}

void run(CudaQueue& queue, const PowerNormForward& args) {
  const PowerNormShape& s = args.shape;
  for_cuda_dtype("power_norm_forward", s.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (s.channels == 0) return;
    launch(queue, {"power_norm_psi", {s.channels}}, power_norm_psi_kernel,
           {blocks_for(s.channels, kThreads), kThreads}, args);
    if (s.rows == 0) return;

    Forward<T> a = forward_arguments<T>(s, args.x);
    a.weight = static_cast<const float*>(args.weight);
    a.bias = static_cast<const float*>(args.bias);
    a.rpsi = static_cast<const float*>(args.rpsi);
    a.y = static_cast<T*>(args.y);
    const KernelName kernel{"power_norm_forward", {s.rows, s.channels, s.groups}};
    const bool wide = groups_are_wide<T>(s, {a.x, a.y, a.weight, a.bias, a.rpsi});
    if (!is_held(s.channels, wide)) {
      const auto factors = long_factors<T>(queue, s, a.x);
      const dim3 grid(blocks_for(s.rows, a.rows_per_chunk).x, blocks_for(s.channels, kThreads).x);
      launch(queue, kernel, power_norm_columns_kernel<T, false>, {grid, kThreads}, a,
             factors.get());
      return;
    }
    for_held_row(s.channels, wide, [&](auto values, auto is_wide) {
      a.groups = power_norm_groups(s, cuda::LaneValues<T, values, is_wide>::kRun);
      launch(queue, kernel, power_norm_apply_kernel<T, values, is_wide>,
             {blocks_for(s.rows, kWarps), kThreads,
              static_cast<std::size_t>(kWarps * a.groups.room(1, 1)) * sizeof(float)},
             a);
    });
  });
}

}  // namespace dtn
