// Full position matrices of DTN and their gradients on a CUDA device; see dtn_dense_positions.h.
// One warp computes one row of P or of its gradient. The kernels are memory-bound: they write H T^2
// elements once. Relative positions are products of the two small factors of P
// (dtn_norm_prepare.cu). This keeps precision where one large exponent would lose digits.
#include "kernels/cuda/reduce.cuh"
#include "kernels/dtn/dtn_dense_positions.h"
#include "kernels/dtn/dtn_norm_cuda.cuh"

namespace dtn {
namespace {

using cuda::kWarpSize;
using cuda::warp_sum;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

// The row that a warp works on, of the matrices of all heads.
struct Row {
  std::int64_t index;  // head n + i
  int lane;

  __device__ Row()
      : index(std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize),
        lane(static_cast<int>(threadIdx.x) % kWarpSize) {}
};

template <class... P, class... A>
void launch_rows(CudaQueue& queue, const char* name, std::int64_t heads, std::int64_t n,
                 void (*kernel)(P...), const A&... args) {
  launch(queue, {name, {heads, n}}, kernel, {blocks_for(heads * n, kWarps), kThreads}, args...);
}

__global__ void __launch_bounds__(kThreads)
    dtn_table_kernel(const float* scores, float* p, std::int64_t rows, int n) {
  const Row row;
  if (row.index >= rows) return;
  scores += row.index * n;
  p += row.index * n;
  float largest = -INFINITY;
  for (int j = row.lane; j < n; j += kWarpSize) largest = cuda::max_or_nan(largest, scores[j]);
  largest = cuda::warp_max(largest);
  float sum = 0;
  for (int j = row.lane; j < n; j += kWarpSize) {
    const float e = expf(scores[j] - largest);
    p[j] = e;
    sum += e;
  }
  const float scale = 1 / warp_sum(sum);
  for (int j = row.lane; j < n; j += kWarpSize) p[j] = normal_or_zero(p[j] * scale);
}

__global__ void __launch_bounds__(kThreads)
    dtn_table_backward_kernel(const float* p, const float* dp, float* dscores, std::int64_t rows,
                              int n) {
  const Row row;
  if (row.index >= rows) return;
  p += row.index * n;
  dp += row.index * n;
  dscores += row.index * n;
  float dot = 0;
  for (int j = row.lane; j < n; j += kWarpSize) dot += p[j] * dp[j];
  dot = warp_sum(dot);
  for (int j = row.lane; j < n; j += kWarpSize) dscores[j] += p[j] * (dp[j] - dot);
}

__global__ void __launch_bounds__(kThreads)
    dtn_band_kernel(float* p, std::int64_t rows, int n, std::int64_t half) {
  const Row row;
  if (row.index >= rows) return;
  const std::int64_t i = row.index % n, last = n - 1;
  const std::int64_t begin = i > half ? i - half : 0, end = last - i > half ? i + half : last;
  const float value = 1 / static_cast<float>(end - begin + 1);
  p += row.index * n;
  for (int j = row.lane; j < n; j += kWarpSize) p[j] = j >= begin && j <= end ? value : 0.0f;
}

// The rows of the two factors of P that form a row of P.
struct FactorRows {
  std::int64_t x, y;  // offsets in the matrices of `along` and `down`

  __device__ FactorRows(const DtnAxis& along, const DtnAxis& down, std::int64_t row) {
    const int n = along.n * down.n, i = static_cast<int>(row % n);
    const std::int64_t head = row / n;
    x = head * along.per_head() + std::int64_t{i % along.n} * along.stride;
    y = head * down.per_head() + std::int64_t{i / along.n} * down.stride;
  }
};

__global__ void __launch_bounds__(kThreads)
    dtn_relative_kernel(DtnAxis along, DtnAxis down, float* p, std::int64_t rows) {
  const Row row;
  if (row.index >= rows) return;
  const FactorRows factors(along, down, row.index);
  const int n = along.n * down.n;
  p += row.index * n;
  for (int j = row.lane; j < n; j += kWarpSize) {
    p[j] = normal_or_zero(down.p[factors.y + j / along.n] * along.p[factors.x + j % along.n]);
  }
}

// partials [T, H, 3]: contribution of each row of P to the gradient of its head's weights. In this
// layout finish_parameter_gradients() adds them as rows of a table.
__global__ void __launch_bounds__(kThreads)
    dtn_relative_backward_kernel(DtnAxis along, DtnAxis down, const float* dp, float* partials,
                                 std::int64_t rows, int heads) {
  const Row row;
  if (row.index >= rows) return;
  const FactorRows factors(along, down, row.index);
  const int n = along.n * down.n;
  dp += row.index * n;
  float x = 0, y = 0, square = 0;
  for (int j = row.lane; j < n; j += kWarpSize) {
    const std::int64_t at_x = factors.x + j % along.n, at_y = factors.y + j / along.n;
    const float d = dp[j], of_x = d * down.p[at_y], of_y = d * along.p[at_x];
    x += of_x * along.by_offset[at_x];
    y += of_y * down.by_offset[at_y];
    square += of_x * along.by_square[at_x] + of_y * down.by_square[at_y];
  }
  x = warp_sum(x);
  y = warp_sum(y);
  square = warp_sum(square);
  float* out = partials + ((row.index % n) * heads + row.index / n) * 3;
  if (row.lane == 0) out[0] = x, out[1] = y, out[2] = square;
}

void check_type(const char* kernel, const DtnDensePositions& args) {
  DTN_CHECK(args.dtype == DType::kFloat32, kernel, ": position matrices are float32, not ",
            name_of(args.dtype));
}

}  // namespace

void run(CudaQueue& queue, const DtnDensePositions& args) {
  check_type("dtn_dense_positions", args);
  const std::int64_t tokens = args.grid_h * args.grid_w, rows = args.heads * tokens;
  if (rows == 0) return;
  const int n = static_cast<int>(tokens);
  auto* p = static_cast<float*>(args.p);
  switch (args.kind) {
    case DtnPositionKind::kTable:
      return launch_rows(queue, "dtn_table", args.heads, n, dtn_table_kernel,
                         static_cast<const float*>(args.weight), p, rows, n);
    case DtnPositionKind::kBanded:
      return launch_rows(queue, "dtn_band", args.heads, n, dtn_band_kernel, p, rows, n,
                         (args.band - 1) / 2);
    case DtnPositionKind::kRelative: break;
  }
  const DtnPrepared made = prepare(queue, args.norm(), 0, static_cast<int>(args.heads));
  launch_rows(queue, "dtn_relative", args.heads, n, dtn_relative_kernel, made.positions.rows,
              made.positions.columns, p, rows);
}

void run(CudaQueue& queue, const DtnDensePositionsBackward& args) {
  check_type("dtn_dense_positions_backward", args);
  const std::int64_t tokens = args.grid_h * args.grid_w, rows = args.heads * tokens;
  if (rows == 0) return;
  const int n = static_cast<int>(tokens);
  const auto* dp = static_cast<const float*>(args.dp);
  if (args.kind == DtnPositionKind::kTable) {
    return launch_rows(queue, "dtn_table_backward", args.heads, n, dtn_table_backward_kernel,
                       static_cast<const float*>(args.p), dp, static_cast<float*>(args.dweight),
                       rows, n);
  }
  DtnNormBackward norm{args.norm(), nullptr};
  norm.dpos_weight = args.dweight;
  const DtnPrepared made = prepare(queue, norm, 0, static_cast<int>(args.heads), true);
  auto partials = queue.scratch<float>(rows * 3);
  launch_rows(queue, "dtn_relative_backward", args.heads, n, dtn_relative_backward_kernel,
              made.positions.rows, made.positions.columns, dp, partials.get(), rows,
              static_cast<int>(args.heads));
  DtnPartials sums{};
  sums.head_rows = tokens;
  sums.pos_weight = partials.get();
  finish_parameter_gradients(queue, norm, sums);
}

}  // namespace dtn
