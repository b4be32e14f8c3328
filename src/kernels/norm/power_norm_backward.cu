// PowerNorm, backward; see power_norm.h for the formulas.
//
// x, dy and dx_add are read once and dx is written once: 4 C sizeof(T) bytes per row. One pass is
// enough, because dx does not depend on the sums over rows. A block takes a chunk of rows that
// depends only on the shape, and its warps take the rows in turn and hold them in registers. A lane
// keeps the running sums of its columns. The block adds the sums of its warps in order and writes
// one row of partial sums. A second kernel adds these up.
//
// Rows that do not fit in registers go through device memory, see power_norm_long.cuh.
#include <algorithm>

#include "kernels/cuda/partials.cuh"
#include "kernels/norm/power_norm_groups.cuh"
#include "kernels/norm/power_norm_long.cuh"

namespace dtn {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / cuda::kWarpSize;
constexpr int kMinRows = 32;            // per chunk, 8 per warp
constexpr int kSums = 3, kResults = 2;  // per group: see group_slopes

template <class T>
struct Backward {
  std::int64_t rows, channels;
  PowerNormGroups groups;
  PowerNormSlopes slopes;
  const T* x;
  const T* dy;
  const T* dx_add;
  T* dx;
  std::int64_t rows_per_chunk;
  float* partials;  // [chunks, (dy z, dy), C]
};

// Computes s and the mean of d z0 for the groups of a row that the warp holds. d is
//    dz0 = dy direct - z0 damped
// The results follow from the sums of x^2, dy direct x and damped x^2.
template <class Row, int kValues>
__device__ __forceinline__ const float* group_slopes(const PowerNormGroups& g, const Row& x,
                                                     const Row& dy, const float* direct,
                                                     const float* damped, int lane, int channels,
                                                     float* room) {
  const int stride = g.groups * g.runs;
#pragma unroll
  for (int i = 0; i < kValues; i += Row::kRun) {
    const int c = Row::column(lane, i);
    if (c >= channels) continue;
    float sums[kSums] = {};
#pragma unroll
    for (int k = 0; k < Row::kRun; ++k) {
      const float v = x[i + k];
      sums[0] = fmaf(v, v, sums[0]);
      sums[1] = fmaf(dy[i + k] * direct[c + k], v, sums[1]);
      sums[2] = fmaf(damped[c + k] * v, v, sums[2]);
    }
#pragma unroll
    for (int k = 0; k < kSums; ++k) room[k * stride + c / Row::kRun] = sums[k];
  }
  float* results = room + kSums * stride;  // [groups, (s, mean)]
  sum_groups<kSums>(g, room, lane, [&](int group, const float* sums) {
    const float factor = g.factor_of(sums[0]);
    results[2 * group] = factor;
    results[2 * group + 1] = (sums[1] - sums[2] * factor) * factor * g.share;
  });
  return results;
}

__device__ __forceinline__ float input_gradient(float dy, float z0, float direct, float damped,
                                                float factor, float mean_dot) {
  return (dy * direct - z0 * (damped + mean_dot)) * factor;
}

// Minimum resident blocks per multiprocessor, which limits the registers of a thread.
template <class T>
constexpr int resident_blocks(int values, bool wide) {
  if (!wide) return 1;
  return values <= 16 ? 4 : values * sizeof(T) <= 96 ? 3 : 2;
}

// Blocks: one per chunk of rows.
template <class T, int kValues, bool kWide>
__global__ void __launch_bounds__(kThreads, resident_blocks<T>(kValues, kWide))
    power_norm_backward_kernel(Backward<T> a) {
  using Row = cuda::LaneValues<T, kValues, kWide>;
  constexpr int kRun = Row::kRun;
  DTN_SHARED(float, shared);  // direct[C], damped[C], then group sums or [kWarps, 2, C]
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const int channels = static_cast<int>(a.channels);
  float* direct = shared;
  float* damped = direct + channels;
  float* rooms = damped + channels;
  for (int c = static_cast<int>(threadIdx.x); c < channels; c += kThreads) {
    direct[c] = a.slopes.direct(c);
    damped[c] = a.slopes.damped(c);
  }
  __syncthreads();
  const std::int64_t begin = blockIdx.x * a.rows_per_chunk;
  const std::int64_t left = a.rows - begin;
  const std::int64_t end = begin + (left < a.rows_per_chunk ? left : a.rows_per_chunk);
  const RunGroups<Row, kValues> group(a.groups, lane, channels);

  float dots[kValues] = {}, sums[kValues] = {};
  for (std::int64_t row = begin + warp; row < end; row += kWarps) {
    const std::int64_t first = row * a.channels;
    Row x, dy, add;
    x.load(a.x + first, lane, channels);
    dy.load(a.dy + first, lane, channels);
    add.load(a.dx_add ? a.dx_add + first : nullptr, lane, a.dx_add ? channels : 0);
    const float* results =
        group_slopes<Row, kValues>(a.groups, x, dy, direct, damped, lane, channels,
                                   rooms + warp * a.groups.room(kSums, kResults));
#pragma unroll
    for (int i = 0; i < kValues; i += kRun) {
      const int c = Row::column(lane, i);
      if (c >= channels) continue;
      const float factor = results[2 * group.of[i / kRun]];
      const float mean_dot = results[2 * group.of[i / kRun] + 1];
      float dx[kRun];
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        const float g = dy[i + k], z0 = x[i + k] * factor;
        dots[i + k] = fmaf(g, z0, dots[i + k]);
        sums[i + k] += g;
        dx[k] = input_gradient(g, z0, direct[c + k], damped[c + k], factor, mean_dot) + add[i + k];
      }
      if (a.dx) Row::store_run(a.dx + first + c, dx);
    }
  }

  if (!a.partials) return;
  __syncthreads();  // the group sums are no longer needed
  Row::store_floats(rooms + (2 * warp) * channels, lane, channels, dots);
  Row::store_floats(rooms + (2 * warp + 1) * channels, lane, channels, sums);
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < 2 * channels; c += kThreads) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += rooms[w * 2 * channels + c];
    if (c < channels) sum *= a.slopes.rpsi[c];
    a.partials[blockIdx.x * 2 * a.channels + c] = sum;
  }
}

// Long rows, one thread per column. Blocks: [chunks, C / kThreads].
template <class T>
__global__ void __launch_bounds__(kThreads)
    power_norm_backward_columns_kernel(Backward<T> a, const float* factors,
                                       const float* mean_dots) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (c >= a.channels) return;
  const std::int64_t group = c / (a.channels / a.groups.groups);
  const float direct = a.slopes.direct(c), damped = a.slopes.damped(c);
  const std::int64_t begin = blockIdx.x * a.rows_per_chunk;
  float dot = 0, sum = 0;
  for (std::int64_t r = begin; r < begin + a.rows_per_chunk && r < a.rows; ++r) {
    const std::int64_t at = r * a.channels + c, segment = r * a.groups.groups + group;
    const float g = cuda::to_float(a.dy[at]), z0 = cuda::to_float(a.x[at]) * factors[segment];
    dot = fmaf(g, z0, dot);
    sum += g;
    if (!a.dx) continue;
    float dx = input_gradient(g, z0, direct, damped, factors[segment], mean_dots[segment]);
    if (a.dx_add) dx += cuda::to_float(a.dx_add[at]);
    a.dx[at] = cuda::from_float<T>(dx);
  }
  if (!a.partials) return;
  a.partials[blockIdx.x * 2 * a.channels + c] = dot * a.slopes.rpsi[c];
  a.partials[(blockIdx.x * 2 + 1) * a.channels + c] = sum;
}

// Destinations of the sums of dy z and of dy.
struct Totals {
  float* dot;      // =
  float* dweight;  // +=
  float* dbias;    // +=
  __device__ __forceinline__ bool wants(int output) const {
    return output == 0 ? dot || dweight : dbias != nullptr;
  }
  __device__ __forceinline__ void operator()(int output, std::int64_t column, float sum) const {
    if (output == 1) {
      dbias[column] += sum;
      return;
    }
    if (dot) dot[column] = sum;
    if (dweight) dweight[column] += sum;
  }
};

// One thread per channel.
__global__ void __launch_bounds__(kThreads) power_norm_feedback_kernel(PowerNormFeedback a) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= a.channels) return;
  auto read = [c](const void* p) { return static_cast<const float*>(p)[c]; };
  float& ema = static_cast<float*>(a.next_ema_gz)[c];
  const float inverse_count = 1.0f / static_cast<float>(a.count);
  const float rest = static_cast<float>(1 - a.alpha);
  ema += read(a.weight) * (read(a.dot) * inverse_count) - rest * ema * read(a.power);
}

template <class T>
void backward(CudaQueue& queue, const PowerNormShape& s, Backward<T>& a, std::int64_t chunks) {
  const KernelName kernel{"power_norm_backward", {s.rows, s.channels, s.groups}};
  const bool wide = groups_are_wide<T>(s, {a.x, a.dy, a.dx_add, a.dx});
  if (is_held(s.channels, wide)) {
    for_held_row(s.channels, wide, [&](auto values, auto is_wide) {
      a.groups = power_norm_groups(s, cuda::LaneValues<T, values, is_wide>::kRun);
      const std::int64_t room =
          std::max<std::int64_t>(a.groups.room(kSums, kResults), 2 * s.channels);
      launch(queue, kernel, power_norm_backward_kernel<T, values, is_wide>,
             {blocks_for(chunks, 1), kThreads,
              static_cast<std::size_t>(2 * s.channels + kWarps * room) * sizeof(float)},
             a);
    });
    return;
  }
  a.groups = power_norm_groups(s, 1);
  auto factors = queue.scratch<float>(s.rows * s.groups);
  auto mean_dots = queue.scratch<float>(s.rows * s.groups);
  PowerNormSegments<T> segments{};
  segments.x = a.x, segments.dy = a.dy;
  segments.slopes = a.slopes;
  segments.factors = factors.get(), segments.mean_dots = mean_dots.get();
  launch_segments(queue, s, segments);
  const dim3 grid(static_cast<unsigned>(chunks), blocks_for(s.channels, kThreads).x);
  launch(queue, kernel, power_norm_backward_columns_kernel<T>, {grid, kThreads}, a, factors.get(),
         mean_dots.get());
}

}  // namespace

void run(CudaQueue& queue, const PowerNormBackward& args) {
  const PowerNormShape& s = args.shape;
  for_cuda_dtype("power_norm_backward", s.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (s.rows == 0 || s.channels == 0) return;
    Backward<T> a{};
    a.rows = s.rows, a.channels = s.channels;
    a.slopes = {static_cast<const float*>(args.weight), static_cast<const float*>(args.rpsi),
                static_cast<const float*>(args.ema_gz), static_cast<float>(1 - args.alpha)};
    a.x = static_cast<const T*>(args.x);
    a.dy = static_cast<const T*>(args.dy);
    a.dx_add = static_cast<const T*>(args.dx_add);
    a.dx = static_cast<T*>(args.dx);
    a.rows_per_chunk = cuda::rows_per_chunk(s.rows, kMinRows, kWarps);
    const std::int64_t chunks = (s.rows + a.rows_per_chunk - 1) / a.rows_per_chunk;
    const Totals totals{static_cast<float*>(args.dot), static_cast<float*>(args.dweight),
                        static_cast<float*>(args.dbias)};
    if (!totals.dot && !totals.dweight && !totals.dbias) return backward(queue, s, a, chunks);
    auto partials = queue.scratch<float>(chunks * 2 * s.channels);
    a.partials = partials.get();
    backward(queue, s, a, chunks);
    cuda::add_partials(queue, "power_norm_add_partials",
                       cuda::PartialSums{a.partials, chunks, s.channels, 2}, totals);
  });
}

void run(CudaQueue& queue, const PowerNormFeedback& args) {
  DTN_CHECK(args.dtype == DType::kFloat32, "power_norm_feedback on CUDA is float32, not ",
            name_of(args.dtype));
  if (args.channels == 0 || args.count == 0) return;
  launch(queue, {"power_norm_feedback", {args.channels}}, power_norm_feedback_kernel,
         {blocks_for(args.channels, kThreads), kThreads}, args);
}

}  // namespace dtn
