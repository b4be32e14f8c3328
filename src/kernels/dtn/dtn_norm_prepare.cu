// First steps of both CUDA paths of DTN: position matrices, bases and token statistics. See
// dtn_norm.h for the formulas and dtn_norm_cuda.cuh for the stored values.
//
// One warp computes one row of a position matrix, one base, all lambdas, or the statistics of one
// token. Matrices and bases are a few kilobytes. The statistics read x once from memory: B T C
// elements are read, and 8 bytes per token are written. The second step of the mean and the squares
// read x again from the first-level cache, since a token is a few kilobytes at most.
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/dtn/dtn_norm_cuda.cuh"
#include "kernels/dtn/dtn_norm_operands.cuh"

namespace dtn {
namespace {

using cuda::kWarpSize;
using cuda::to_float;
using cuda::warp_sum;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ __forceinline__ std::int64_t warp_task() {
  return std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize;
}

// A DtnAxis under construction.
struct AxisToMake {
  int n, stride;
  float direction;   // of offsets: +1 for j - i
  int offset_index;  // column of pos_weight
  float *p, *p_transposed, *by_offset, *by_square;
  DtnSpan* seen;
  uint4* operands = nullptr;  // of the first head

  // Number of rows per head that get a warp. Operands are 16 x 16 matrices.
  __host__ __device__ __forceinline__ int rows() const { return operands ? tensor::kSide : stride; }
};

// The integer d in [low, high] with the largest square_weight d^2 + offset_weight d.
__device__ float best_offset(float low, float high, float square_weight, float offset_weight) {
  if (square_weight < 0) {
    float top = offset_weight / (-2 * square_weight);
    if (!(top > low)) return low;
    if (top > high) return high;
    return low + floorf(top - low + 0.5f);
  }
  // Difference between the values at high and at low, divided by high - low.
  float gain = square_weight * (low + high) + offset_weight;
  return gain > 0 ? high : low;
}

// Returns the shortest span that contains the spans of all lanes. {n, 0} is the empty span.
__device__ __forceinline__ DtnSpan span_of_warp(DtnSpan span) {
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    const int begin = __shfl_xor_sync(cuda::kWholeWarp, span.begin, step);
    const int end = __shfl_xor_sync(cuda::kWholeWarp, span.end, step);
    if (begin < span.begin) span.begin = begin;
    if (end > span.end) span.end = end;
  }
  return span;
}

// Computes row i of P. P has no rows i >= n; for these, writes the zero column i of its transpose.
__device__ void make_row(const AxisToMake& axis, const float* weight, int head, int i, int lane) {
  const int n = axis.n, stride = axis.stride;
  const std::int64_t matrix = std::int64_t{head} * n * stride;
  float* p_transposed = axis.p_transposed + matrix;
  if (i >= n) {
    if (i >= stride) return;
    for (int j = lane; j < n; j += kWarpSize) p_transposed[std::int64_t{j} * stride + i] = 0;
    return;
  }
  const std::int64_t row = matrix + std::int64_t{i} * stride;
  float* p = axis.p + row;
  const float square_weight = weight[3 * head + 2];
  const float offset_weight = weight[3 * head + axis.offset_index];
  // With t = d - best:
  //    exponent - its maximum = t (square_weight (2 best + t) + offset_weight)
  //    d^2 - its mean         = (2 best t + t^2) - the mean of (2 best t + t^2)
  // Neither loses digits if the exponent is large or if the largest weights are far from i.
  const bool ahead = axis.direction > 0;
  const float best =
      best_offset(static_cast<float>(ahead ? -i : i - n + 1),
                  static_cast<float>(ahead ? n - 1 - i : i), square_weight, offset_weight);
  auto shifted = [&](int j) { return static_cast<float>(j - i) * axis.direction - best; };
  float sum = 0;
  for (int j = lane; j < stride; j += kWarpSize) {
    float t = shifted(j);
    float e = j < n ? expf(t * (square_weight * (2 * best + t) + offset_weight)) : 0;
    if (n > kWholeAxis && e < kMinWeight) e = 0;
    p[j] = e;
    sum += e;
  }
  const float scale = 1 / warp_sum(sum);
  float first = 0, second = 0;
  DtnSpan seen{n, 0};
  for (int j = lane; j < n; j += kWarpSize) {
    float t = shifted(j), v = normal_or_zero(p[j] * scale);
    p[j] = v;
    p_transposed[std::int64_t{j} * stride + i] = v;
    first += v * t;
    second += v * t * t;
    if (v != 0) seen = {seen.begin < j ? seen.begin : j, j + 1};  // NaN is not 0
  }
  seen = span_of_warp(seen);
  if (lane == 0) axis.seen[std::int64_t{head} * n + i] = seen;
  if (!axis.by_offset) return;
  const float mean = warp_sum(first), mean_square = warp_sum(second);
  for (int j = lane; j < stride; j += kWarpSize) {
    float t = shifted(j), v = p[j];
    axis.by_offset[row + j] = v * (t - mean);
    axis.by_square[row + j] = v * (2 * best * (t - mean) + (t * t - mean_square));
  }
}

// The first token of each image, whose mean is the base. It is read from x or, before the residual
// sum is written to x, computed from its terms.
template <class T>
struct FirstTokens {
  const T *x, *branch;  // x, or the residual if there is a branch
  const float* scale;
  std::int64_t batch, image;
  int channels;

  __device__ __forceinline__ float operator()(std::int64_t b, int c) const {
    const std::int64_t at = b * image + c;
    if (!branch) return to_float(x[at]);
    const float sum = fmaf(scale ? scale[b] : 1.0f, to_float(branch[at]), to_float(x[at]));
    return to_float(cuda::from_float<T>(sum));
  }
};

// Computes the lambdas of all heads with one warp.
__device__ __forceinline__ void make_lambdas(const void* logits, void* lambdas, int heads,
                                             int lane) {
  if (!logits) return;
  const float* from = static_cast<const float*>(logits);
  float* to = static_cast<float*>(lambdas);
  for (int h = lane; h < heads; h += kWarpSize) to[h] = 1.0f / (1.0f + expf(-from[h]));
}

// Writes row i of P as operands. Each lane reads the element of P that it computed itself.
__device__ void make_operands(const AxisToMake& axis, int head, int i, int lane) {
  uint4* of_head = axis.operands + head * tensor::kOperandVectors * kWarpSize;
  const bool valid = i < axis.n && lane < axis.n;
  const float* row = axis.p + (head * axis.n + i) * axis.stride;
  tensor::store_operand_row(of_head, axis.offset_index == 0, i, valid ? row[lane] : 0.0f);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    dtn_prepare_kernel(AxisToMake rows, AxisToMake columns, const float* pos_weight, int heads,
                       FirstTokens<T> first, bool official, float* bases, DtnLogits logits,
                       int all_heads) {
  std::int64_t task = warp_task();
  const int lane = lane_index();
  // Computes the row and returns true if the task is a row of this axis. Otherwise subtracts the
  // tasks of this axis from `task`.
  auto makes_row_of = [&](const AxisToMake& axis) {
    const std::int64_t tasks = std::int64_t{heads} * axis.rows();
    if (task >= tasks) {
      task -= tasks;
      return false;
    }
    const int head = static_cast<int>(task / axis.rows());
    const int row = static_cast<int>(task % axis.rows());
    make_row(axis, pos_weight, head, row, lane);
    if (axis.operands) make_operands(axis, head, row, lane);
    return true;
  };
  if (makes_row_of(rows) || makes_row_of(columns)) return;
  if (task == first.batch) {
    make_lambdas(logits.mean, logits.lambda_mean, all_heads, lane);
    make_lambdas(logits.var, logits.lambda_var, all_heads, lane);
  }
  if (task >= first.batch) return;
  float sum = 0;
  for (int c = lane; c < first.channels; c += kWarpSize) sum += first(task, c);
  sum = warp_sum(sum);
  if (lane == 0) {
    bases[task] = official ? (sum < 0 ? -1.0f : 1.0f) : sum / static_cast<float>(first.channels);
  }
}

// Calls f(value) for each value of a row that belongs to this lane.
template <bool kVectors, class T, class F>
__device__ __forceinline__ void for_each_value(const T* x, int n, int lane, F&& f) {
  if constexpr (kVectors) {
    constexpr int k = cuda::kPerVector<T>;
#pragma unroll 2
    for (int c = lane * k; c < n; c += kWarpSize * k) {
      float v[k];
      cuda::load_vector<T>(x + c, v);
#pragma unroll
      for (int i = 0; i < k; ++i) f(v[i]);
    }
  } else {
#pragma unroll 4
    for (int c = lane; c < n; c += kWarpSize) f(to_float(x[c]));
  }
}

// Mean and variance of a token. The mean is computed in two steps, so that its error is relative to
// the spread and not to the mean. The variance comes from squares relative to the first step's
// mean, and is corrected.
struct Moments {
  float rough, rest = 0, squares = 0;

  __device__ void add(float v) {
    float d = v - rough;
    rest += d;
    squares += d * d;
  }
  __device__ void finish(int channels, float divisor, float base, float* mean, float* var) {
    const float n = static_cast<float>(channels), delta = warp_sum(rest) / n;
    squares = warp_sum(squares);
    if (lane_index() != 0) return;
    *mean = (rough - base) + delta;
    *var = (squares - n * delta * delta) / divisor;
  }
};

template <class T, bool kVectors>
__global__ void __launch_bounds__(kThreads)
    dtn_token_statistics_kernel(const T* x, DtnSizes sizes, const float* bases, float* mean,
                                float* var) {
  const std::int64_t row = warp_task();
  if (row >= sizes.batch * sizes.tokens) return;
  const int lane = lane_index(), channels = static_cast<int>(sizes.channels);
  x += sizes.start_of(row);
  float sum = 0;
  for_each_value<kVectors>(x, channels, lane, [&](float v) { sum += v; });
  const float n = static_cast<float>(channels);
  Moments moments{warp_sum(sum) / n};
  for_each_value<kVectors>(x, channels, lane, [&](float v) { moments.add(v); });
  moments.finish(channels, n, bases[row / sizes.tokens], mean + row, var + row);
}

// Computes the statistics of the official variant, and scale[h tokens] for each head h.
template <class T>
__global__ void __launch_bounds__(kThreads)
    dtn_official_statistics_kernel(const T* x, DtnSizes sizes, double eps, const float* bases,
                                   double* head_rstd, float* mean, float* var) {
  const std::int64_t row = warp_task();
  if (row >= sizes.batch * sizes.tokens) return;
  const int lane = lane_index(), heads = sizes.heads, head_dim = sizes.head_dim;
  const int tokens = sizes.tokens;
  const std::int64_t b = row / tokens;
  const float base = bases[b];
  x += sizes.start_of(row);
  double* scale = head_rstd + b * heads * tokens + row % tokens;
  float sum = 0;
  for (int h = 0; h < heads; ++h) {
    double squares = 0;
    for_each_value<false>(x + h * head_dim, head_dim, lane, [&](float v) {
      squares += static_cast<double>(v) * static_cast<double>(v);
    });
    const double s = 1 / sqrt(warp_sum(squares) / head_dim + eps);
    scale[std::int64_t{h} * tokens] = s;  // every lane writes it and reads it again below
    for_each_value<false>(x + h * head_dim, head_dim, lane,
                          [&](float v) { sum += centred_quotient(v, s, base); });
  }
  const int channels = static_cast<int>(sizes.channels);
  const float n = static_cast<float>(channels);
  Moments moments{warp_sum(sum) / n};
  for (int h = 0; h < heads; ++h) {
    const double s = scale[std::int64_t{h} * tokens];
    for_each_value<false>(x + h * head_dim, head_dim, lane,
                          [&](float v) { moments.add(centred_quotient(v, s, base)); });
  }
  moments.finish(channels, n - 1, 0, mean + row, var + row);
}

}  // namespace

DtnPrepared prepare(CudaQueue& queue, const DtnNormArguments& args, int first_head, int heads,
                    bool gradients, bool operands, const DtnLogits& logits, const DtnSum& sum) {
  const DtnSizes sizes(args);
  const int kinds = gradients ? 4 : 2;
  auto per_head = [](int n) { return std::int64_t{n} * position_stride(n); };
  const std::int64_t row_size = heads * per_head(sizes.grid_w);
  const std::int64_t column_size = heads * per_head(sizes.grid_h);
  DtnPrepared made{{{},
                    {},
                    queue.scratch<float>(kinds * (row_size + column_size) +
                                         (operands ? heads * tensor::kOperandWords : 0)),
                    queue.scratch<DtnSpan>(std::int64_t{heads} * (sizes.grid_w + sizes.grid_h))},
                   queue.scratch<float>(sizes.batch)};
  const float direction = args.variant == DtnVariant::kOfficial ? -1.0f : 1.0f;
  float* at = made.positions.memory.get();
  DtnSpan* seen = made.positions.spans.get();
  auto make = [&](int n, std::int64_t size, int offset_index, DtnAxis& axis) {
    AxisToMake m{n,   position_stride(n), direction, offset_index, at, at + size, nullptr, nullptr,
                 seen};
    if (gradients) m.by_offset = at + 2 * size, m.by_square = at + 3 * size;
    at += kinds * size;
    seen += std::int64_t{heads} * n;
    axis = {m.n, m.stride, m.p, m.p_transposed, m.by_offset, m.by_square, m.seen};
    return m;
  };
  AxisToMake rows = make(sizes.grid_w, row_size, 0, made.positions.rows);
  AxisToMake columns = make(sizes.grid_h, column_size, 1, made.positions.columns);
  // `at` is a multiple of 32 bytes, because the strides are.
  if (operands) {
    rows.operands = columns.operands = reinterpret_cast<uint4*>(at);
    made.positions.operands = rows.operands;
  }
  const bool learns = logits.mean || logits.var;
  const std::int64_t tasks =
      std::int64_t{heads} * (rows.rows() + columns.rows()) + sizes.batch + learns;
  for_cuda_dtype("dtn_prepare", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(queue, {"dtn_prepare", {sizes.batch, sizes.grid_h, sizes.grid_w, sizes.channels, heads}},
           dtn_prepare_kernel<T>, {blocks_for(tasks, kWarps), kThreads}, rows, columns,
           static_cast<const float*>(args.pos_weight) + 3 * first_head, heads,
           FirstTokens<T>{static_cast<const T*>(sum.residual ? sum.residual : args.x),
                          static_cast<const T*>(sum.branch), static_cast<const float*>(sum.scale),
                          sizes.batch, sizes.image, static_cast<int>(sizes.channels)},
           args.variant == DtnVariant::kOfficial, made.bases.get(), logits, sizes.heads);
  });
  return made;
}

void token_statistics(CudaQueue& queue, const DtnNormForward& args, const float* bases) {
  const DtnSizes sizes(args);
  auto* mean = static_cast<float*>(args.token_mean);
  auto* var = static_cast<float*>(args.token_var);
  const LaunchShape shape{blocks_for(sizes.batch * sizes.tokens, kWarps), kThreads};
  const KernelName name{"dtn_token_statistics", {sizes.batch, sizes.tokens, sizes.channels}};
  for_cuda_dtype(name.name, args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = static_cast<const T*>(args.x);
    if (args.variant == DtnVariant::kOfficial) {
      launch(queue, name, dtn_official_statistics_kernel<T>, shape, x, sizes, args.eps, bases,
             static_cast<double*>(args.head_rstd), mean, var);
    } else if (cuda::is_vectorizable<T>(x, sizes.channels)) {
      launch(queue, name, dtn_token_statistics_kernel<T, true>, shape, x, sizes, bases, mean, var);
    } else {
      launch(queue, name, dtn_token_statistics_kernel<T, false>, shape, x, sizes, bases, mean, var);
    }
  });
}

}  // namespace dtn
