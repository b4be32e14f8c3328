// Normalization of rows by their length; see rms_norm.h for the formulas.
//
// In the forward pass, a warp holds one row, or several short rows, in registers. So x is read once
// and y is written once: 2 C sizeof(T) bytes per row. In the backward pass, a block takes a chunk
// of rows that depends only on the shape, and its warps take the rows in turn. A lane keeps the
// running dweight of its columns in registers. x, dy and dx_add are read once and dx is written
// once: 4 C sizeof(T) bytes per row. The block adds the sums of its warps in order and writes one
// row of partial sums. A second kernel adds these up.
//
// Rows that do not fit in registers take a block each, which reads them again from the cache. Their
// dweight is summed with one thread per column.
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/partials.cuh"
#include "kernels/norm/layer_norm_shape.cuh"
#include "kernels/norm/rms_norm.h"

namespace dtn {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / cuda::kWarpSize;
constexpr int kMinRows = 32;  // per chunk, 8 per warp

template <class T>
struct Arguments {
  std::int64_t rows, channels;
  bool rms;
  float inverse_channels;
  float eps;
  const T* x;
  const float* weight;
  T* y;
  float* factor;  // [rows]; written forward, read backward
  const T* dy;
  const T* dx_add;
  T* dx;
  std::int64_t rows_per_chunk;
  float* partials;  // [chunks, C]

  __device__ __forceinline__ float limit() const { return 1.0f / eps; }
  // If eps is larger than the length, ScaleNorm divides by eps. The factor is then exactly limit(),
  // and the backward pass tests this.
  __device__ __forceinline__ float factor_of(float squares) const {
    if (rms) return 1.0f / sqrtf(fmaf(squares, inverse_channels, eps));
    const float f = 1.0f / sqrtf(squares);
    return f > limit() ? limit() : f;
  }
  // Returns s_c(dxhat xhat) factor, from dot = sum_c dxhat x.
  __device__ __forceinline__ float slope_of(float f, float dot) const {
    if (rms) return f * (dot * inverse_channels) * f;
    return f < limit() ? f * dot * f : 0.0f;
  }
};

// Rows per warp. Short rows are processed several at a time, for more bytes in flight.
constexpr int rows_together(int values) { return values <= 8 ? 4 : values <= 16 ? 2 : 1; }

// Blocks: rows / (kWarps kRows).
template <class T, int kValues, bool kWide>
__global__ void __launch_bounds__(kThreads) rms_norm_forward_kernel(Arguments<T> a) {
  using Row = cuda::LaneValues<T, kValues, kWide>;
  constexpr int kRows = rows_together(kValues), kRun = Row::kRun;
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const int channels = static_cast<int>(a.channels);
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kWarps + warp) * kRows;
  if (first >= a.rows) return;  // the whole warp returns
  Row x[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    x[r].load(a.x + (first + r) * a.channels, lane, first + r < a.rows ? channels : 0);
  }
  float factor[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) factor[r] = fmaf(x[r][i], x[r][i], factor[r]);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    factor[r] = a.factor_of(cuda::warp_sum(factor[r]));
    if (lane == 0 && first + r < a.rows) a.factor[first + r] = factor[r];
  }
#pragma unroll
  for (int i = 0; i < kValues; i += kRun) {
    const int c = Row::column(lane, i);
    if (c >= channels) continue;
    float weight[kRun];
    Row::load_float_run(a.weight + c, weight);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r >= a.rows) continue;
      float y[kRun];
#pragma unroll
      for (int k = 0; k < kRun; ++k) y[k] = x[r][i + k] * factor[r] * weight[k];
      Row::store_run(a.y + (first + r) * a.channels + c, y);
    }
  }
}

// Long rows, one block per row. A thread owns the columns c = thread mod kThreads in both passes.
template <class T>
__global__ void __launch_bounds__(kThreads) rms_norm_forward_long_kernel(Arguments<T> a) {
  DTN_SHARED(float, shared);
  const std::int64_t first = blockIdx.x * a.channels;
  float squares = 0;
  for (std::int64_t c = threadIdx.x; c < a.channels; c += kThreads) {
    const float v = cuda::to_float(a.x[first + c]);
    squares = fmaf(v, v, squares);
  }
  const float factor = a.factor_of(cuda::block_sum_once(squares, shared));
  if (threadIdx.x == 0) a.factor[blockIdx.x] = factor;
  for (std::int64_t c = threadIdx.x; c < a.channels; c += kThreads) {
    a.y[first + c] = cuda::from_float<T>(cuda::to_float(a.x[first + c]) * factor * a.weight[c]);
  }
}

// Writes dx of a row that a warp holds; dot is sum_c dxhat x. All lanes must take part.
template <class T, int kValues, bool kWide, class Row>
__device__ __forceinline__ void write_dx(const Arguments<T>& a, std::int64_t row, int lane,
                                         const Row& x, const Row& dy, float dot) {
  constexpr int kRun = Row::kRun;
  const int channels = static_cast<int>(a.channels);
  const float factor = a.factor[row], slope = a.slope_of(factor, dot);
  Row add;
  add.load(a.dx_add ? a.dx_add + row * a.channels : nullptr, lane, a.dx_add ? channels : 0);
#pragma unroll
  for (int i = 0; i < kValues; i += kRun) {
    const int c = Row::column(lane, i);
    if (c >= channels) continue;
    float weight[kRun], dx[kRun];
    Row::load_float_run(a.weight + c, weight);
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      dx[k] = (dy[i + k] * weight[k] - x[i + k] * slope) * factor + add[i + k];
    }
    Row::store_run(a.dx + row * a.channels + c, dx);
  }
}

// Minimum resident blocks per multiprocessor in the backward pass, which limits the registers of a
// thread.
template <class T>
constexpr int resident_blocks(int values, bool wide) {
  if (!wide) return 2;
  return values <= 8 ? 8 : values <= 16 ? 5 : values * sizeof(T) <= 96 ? 4 : 3;
}

// Blocks: one per chunk of rows.
template <class T, int kValues, bool kWide>
__global__ void __launch_bounds__(kThreads, resident_blocks<T>(kValues, kWide))
    rms_norm_backward_kernel(Arguments<T> a) {
  using Row = cuda::LaneValues<T, kValues, kWide>;
  constexpr int kRun = Row::kRun;
  DTN_SHARED(float, shared);  // [kWarps, C]
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const int channels = static_cast<int>(a.channels);
  const std::int64_t begin = blockIdx.x * a.rows_per_chunk;
  const std::int64_t left = a.rows - begin;
  const std::int64_t end = begin + (left < a.rows_per_chunk ? left : a.rows_per_chunk);

  float dweight[kValues] = {};
  for (std::int64_t row = begin + warp; row < end; row += kWarps) {
    Row x, dy;
    x.load(a.x + row * a.channels, lane, channels);
    dy.load(a.dy + row * a.channels, lane, channels);
    const float factor = a.factor[row];
    float dot = 0;
#pragma unroll
    for (int i = 0; i < kValues; i += kRun) {
      const int c = Row::column(lane, i);
      if (c >= channels) continue;
      float weight[kRun];
      Row::load_float_run(a.weight + c, weight);
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        const float gx = dy[i + k] * x[i + k];
        dweight[i + k] = fmaf(gx, factor, dweight[i + k]);
        dot = fmaf(gx, weight[k], dot);
      }
    }
    if (a.dx) write_dx<T, kValues, kWide>(a, row, lane, x, dy, cuda::warp_sum(dot));
  }

  if (!a.partials) return;
  Row::store_floats(shared + warp * channels, lane, channels, dweight);
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < channels; c += kThreads) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += shared[w * channels + c];
    a.partials[static_cast<std::int64_t>(blockIdx.x) * channels + c] = sum;
  }
}

// Computes dx of long rows, one block per row.
template <class T>
__global__ void __launch_bounds__(kThreads) rms_norm_backward_long_kernel(Arguments<T> a) {
  DTN_SHARED(float, shared);
  const std::int64_t first = blockIdx.x * a.channels;
  const float factor = a.factor[blockIdx.x];
  float dot = 0;
  for (std::int64_t c = threadIdx.x; c < a.channels; c += kThreads) {
    dot += cuda::to_float(a.dy[first + c]) * a.weight[c] * cuda::to_float(a.x[first + c]);
  }
  const float slope = a.slope_of(factor, cuda::block_sum_once(dot, shared));
  for (std::int64_t c = threadIdx.x; c < a.channels; c += kThreads) {
    float dx =
        (cuda::to_float(a.dy[first + c]) * a.weight[c] - cuda::to_float(a.x[first + c]) * slope) *
        factor;
    if (a.dx_add) dx += cuda::to_float(a.dx_add[first + c]);
    a.dx[first + c] = cuda::from_float<T>(dx);
  }
}

// Computes dweight of long rows, one thread per column of a chunk. Blocks: [chunks, C / kThreads].
template <class T>
__global__ void __launch_bounds__(kThreads) rms_norm_backward_columns_kernel(Arguments<T> a) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (c >= a.channels) return;
  const std::int64_t begin = blockIdx.x * a.rows_per_chunk;
  float dweight = 0;
  for (std::int64_t r = begin; r < begin + a.rows_per_chunk && r < a.rows; ++r) {
    const std::int64_t at = r * a.channels + c;
    dweight = fmaf(cuda::to_float(a.dy[at]) * cuda::to_float(a.x[at]), a.factor[r], dweight);
  }
  a.partials[blockIdx.x * a.channels + c] = dweight;
}

template <class T>
Arguments<T> arguments(const RmsNormArguments& args) {
  Arguments<T> a{};
  a.rows = args.rows, a.channels = args.channels;
  a.rms = args.kind == RmsNormKind::kRms;
  a.inverse_channels = 1.0f / static_cast<float>(args.channels);
  a.eps = static_cast<float>(args.eps);
  a.x = static_cast<const T*>(args.x);
  a.weight = static_cast<const float*>(args.weight);
  return a;
}

template <class T>
void backward(CudaQueue& queue, const Arguments<T>& a, std::int64_t chunks) {
  const KernelName kernel{"rms_norm_backward", {a.rows, a.channels}};
  const bool wide = rows_are_wide<T>(a.channels, {a.x, a.dy, a.dx_add, a.dx, a.weight});
  if (is_held(a.channels, wide)) {
    for_held_row(a.channels, wide, [&](auto values, auto is_wide) {
      launch(queue, kernel, rms_norm_backward_kernel<T, values, is_wide>,
             {blocks_for(chunks, 1), kThreads,
              static_cast<std::size_t>(kWarps * a.channels) * sizeof(float)},
             a);
    });
    return;
  }
  // The sums come first, because dx may overwrite dy.
  if (a.partials) {
    const dim3 grid(static_cast<unsigned>(chunks), blocks_for(a.channels, kThreads).x);
    launch(queue, kernel, rms_norm_backward_columns_kernel<T>, {grid, kThreads}, a);
  }
  if (a.dx) {
    launch(queue, kernel, rms_norm_backward_long_kernel<T>,
           {blocks_for(a.rows, 1), kThreads, kWarps * sizeof(float)}, a);
  }
}

}  // namespace

void run(CudaQueue& queue, const RmsNormForward& args) {
  for_cuda_dtype("rms_norm_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0 || args.channels == 0) return;
    Arguments<T> a = arguments<T>(args);
    a.y = static_cast<T*>(args.y);
    a.factor = static_cast<float*>(args.factor);
    const KernelName kernel{"rms_norm_forward", {a.rows, a.channels}};
    const bool wide = rows_are_wide<T>(a.channels, {a.x, a.y, a.weight});
    if (!is_held(a.channels, wide)) {
      launch(queue, kernel, rms_norm_forward_long_kernel<T>,
             {blocks_for(a.rows, 1), kThreads, kWarps * sizeof(float)}, a);
      return;
    }
    for_held_row(a.channels, wide, [&](auto values, auto is_wide) {
      launch(queue, kernel, rms_norm_forward_kernel<T, values, is_wide>,
             {blocks_for(a.rows, kWarps * rows_together(values)), kThreads}, a);
    });
  });
}

void run(CudaQueue& queue, const RmsNormBackward& args) {
  for_cuda_dtype("rms_norm_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.rows == 0 || args.channels == 0) return;
    Arguments<T> a = arguments<T>(args);
    a.factor = static_cast<float*>(const_cast<void*>(args.factor));
    a.dy = static_cast<const T*>(args.dy);
    a.dx_add = static_cast<const T*>(args.dx_add);
    a.dx = static_cast<T*>(args.dx);
    a.rows_per_chunk = cuda::rows_per_chunk(args.rows, kMinRows, kWarps);
    const std::int64_t chunks = (args.rows + a.rows_per_chunk - 1) / a.rows_per_chunk;
    if (!args.dweight) return backward(queue, a, chunks);
    auto partials = queue.scratch<float>(chunks * args.channels);
    a.partials = partials.get();
    backward(queue, a, chunks);
    cuda::Partials sums{a.partials, chunks, args.channels, 1, {}};
    sums.totals[0] = static_cast<float*>(args.dweight);
    cuda::add_partials(queue, "rms_norm_add_partials", sums);
  });
}

}  // namespace dtn
