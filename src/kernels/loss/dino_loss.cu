// Forward pass of self-distillation; see dino_loss.h for the formulas. dino_loss.cpp explains the
// sums over a block of columns. Here a block of columns is the tile of one warp. The warp keeps the
// teacher's exponentials in registers while it reads the rows of the student, so the logits are
// read from memory once: (4 + L) n K sizeof(T) bytes. A second kernel adds the tiles of a sample,
// and a third one the samples, in order.
//
// The argument of a softmax is logit factor + shift. Columns behind the last one have the factor 0
// and a shift so low that their exponentials are 0.
#include "kernels/loss/dino_loss.h"
#include "kernels/loss/row_pieces.cuh"

namespace dtn {
namespace {

constexpr int kDinoWarps = 8;
constexpr int kDinoThreads = kDinoWarps * cuda::kWarpSize;
constexpr int kDinoValues = 8;  // of a lane, in a row of its tile
constexpr int kDinoTile = kDinoValues * cuda::kWarpSize;
constexpr float kDinoNothing = -1e30f;

// Sums over a tile of one row, relative to its largest argument there: see dino_loss.cpp. x: the
// largest argument, y: sum of exponentials, z and w: sums against the teacher's rows 0 and 1. A
// teacher's row has in z the sum against itself.
using DinoPart = float4;

// Parts of all samples, [samples, 2 + V, tiles]: teacher's rows, then student's rows.
struct DinoParts {
  DinoPart* first;
  std::int64_t rows, tiles;
  __device__ __forceinline__ DinoPart* of_row(std::int64_t sample, std::int64_t row) const {
    return first + (sample * rows + row) * tiles;
  }
};

struct DinoFactors {
  float factor[kDinoValues], shift[kDinoValues];
};

// Factors of a tile from the rows `scale` and, if it is not null, `center`.
template <class Row>
__device__ __forceinline__ DinoFactors load_factors(const float* scale, const float* center,
                                                    float inverse_temp, int lane, int columns) {
  DinoFactors f;
#pragma unroll
  for (int i = 0; i < kDinoValues; i += Row::kRun) {
    const int c = Row::column(lane, i);
    float s[Row::kRun] = {}, shift[Row::kRun] = {};
    if (c < columns) {
      Row::load_float_run(scale + c, s);
      if (center) Row::load_float_run(center + c, shift);
    }
#pragma unroll
    for (int k = 0; k < Row::kRun; ++k) {
      f.factor[i + k] = s[k] * inverse_temp;
      f.shift[i + k] = c < columns ? -shift[k] * inverse_temp : kDinoNothing;
    }
  }
  return f;
}

// Loads the arguments of a row and returns the largest one of the warp.
template <class Row, class T>
__device__ __forceinline__ float load_arguments(const T* row, const DinoFactors& f, int lane,
                                                int columns, float (&x)[kDinoValues]) {
  Row logits;
  logits.load(row, lane, columns);
  float largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kDinoValues; ++i) {
    x[i] = fmaf(logits[i], f.factor[i], f.shift[i]);
    largest = cuda::max_or_nan(largest, x[i]);
  }
  return cuda::warp_max(largest);
}

// Replaces the arguments by their exponentials.
__device__ __forceinline__ DinoPart teacher_part(float largest, float (&x)[kDinoValues]) {
  float sum = 0, dot = 0;
#pragma unroll
  for (int i = 0; i < kDinoValues; ++i) {
    const float below = largest - x[i];
    x[i] = expf(-below);
    sum += x[i];
    dot = fmaf(x[i], below, dot);
  }
  return make_float4(largest, cuda::warp_sum(sum), cuda::warp_sum(dot), 0);
}

__device__ __forceinline__ DinoPart student_part(float largest, const float (&x)[kDinoValues],
                                                 const float (&e)[2][kDinoValues]) {
  float sum = 0, dot[2] = {};
#pragma unroll
  for (int i = 0; i < kDinoValues; ++i) {
    const float below = largest - x[i];
    sum += expf(-below);
    dot[0] = fmaf(e[0][i], below, dot[0]);
    dot[1] = fmaf(e[1][i], below, dot[1]);
  }
  return make_float4(largest, cuda::warp_sum(sum), cuda::warp_sum(dot[0]), cuda::warp_sum(dot[1]));
}

// Warps: a tile of one sample each. Grid: [tiles / kDinoWarps, samples].
template <class T, bool kWide>
__global__ void __launch_bounds__(kDinoThreads)
    dino_loss_tiles_kernel(DinoLossInputs in, DinoParts parts, float* center_squares) {
  using Row = RowPiece<T, kWide>;
  static_assert(Row::kColumns == kDinoTile);
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const std::int64_t tile =
      static_cast<std::int64_t>(blockIdx.x) * kDinoWarps + threadIdx.x / cuda::kWarpSize;
  if (tile >= parts.tiles) return;  // the whole warp returns
  const std::int64_t sample = blockIdx.y, first = tile * kDinoTile, left = in.outputs - first;
  const int columns = left < kDinoTile ? static_cast<int>(left) : kDinoTile;
  const T* teacher = static_cast<const T*>(in.teacher) + first;
  const T* student = static_cast<const T*>(in.student) + first;
  const float* center = static_cast<const float*>(in.center) + first;
  const auto write = [&](std::int64_t row, const DinoPart& part) {
    if (lane == 0) parts.of_row(sample, row)[tile] = part;
  };
  if (sample == 0) {
    float squares = 0;
    for (int c = lane; c < columns; c += cuda::kWarpSize) {
      squares = fmaf(center[c], center[c], squares);
    }
    squares = cuda::warp_sum(squares);
    if (lane == 0) center_squares[tile] = squares;
  }
  DinoFactors f = load_factors<Row>(static_cast<const float*>(in.teacher_scale) + first, center,
                                    1.0f / static_cast<float>(*in.teacher_temp), lane, columns);
  float e[2][kDinoValues], x[kDinoValues];
#pragma unroll
  for (int a = 0; a < 2; ++a) {
    const float largest =
        load_arguments<Row>(teacher + (2 * sample + a) * in.outputs, f, lane, columns, e[a]);
    write(a, teacher_part(largest, e[a]));
  }
  f = load_factors<Row>(static_cast<const float*>(in.student_scale) + first, nullptr,
                        1.0f / static_cast<float>(in.student_temp), lane, columns);
  for (std::int64_t v = 0; v < in.views(); ++v) {
    const float largest =
        load_arguments<Row>(student + in.student_row(sample, v) * in.outputs, f, lane, columns, x);
    write(2 + v, student_part(largest, x, e));
  }
}

// Log of the sum of exponentials of a row.
__device__ __forceinline__ float log_sum_exp_of(const DinoPart* row, std::int64_t tiles, int lane) {
  float largest = -INFINITY, sum = 0;
  for (std::int64_t t = lane; t < tiles; t += cuda::kWarpSize) {
    largest = cuda::max_or_nan(largest, row[t].x);
  }
  largest = cuda::warp_max(largest);
  for (std::int64_t t = lane; t < tiles; t += cuda::kWarpSize) {
    sum = fmaf(expf(row[t].x - largest), row[t].y, sum);
  }
  return largest + logf(cuda::warp_sum(sum));
}

// Sum over k of q_ak (lse - x_k), where `lse` and the arguments x belong to `row`.
__device__ __forceinline__ float dot_of_rows(const DinoPart* teacher, float teacher_lse,
                                             bool second, const DinoPart* row, float lse,
                                             std::int64_t tiles, int lane) {
  float sum = 0;
  for (std::int64_t t = lane; t < tiles; t += cuda::kWarpSize) {
    const DinoPart a = teacher[t], b = row[t];
    const float dot = fmaf(a.y, lse - b.x, second ? b.w : b.z);
    sum = fmaf(expf(a.x - teacher_lse), dot, sum);
  }
  return cuda::warp_sum(sum);
}

// Sums over the rows or pairs of one sample.
struct DinoSampleSums {
  double entropy, loss_global, loss_local;
};

// Blocks: samples. Warps: rows.
__global__ void __launch_bounds__(kDinoThreads)
    dino_loss_samples_kernel(DinoLossForward args, DinoParts parts, DinoSampleSums* sums) {
  DTN_SHARED(float, shared);
  float *lse = shared, *terms = shared + parts.rows;  // [rows] each
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const std::int64_t sample = blockIdx.x;
  for (std::int64_t row = warp; row < parts.rows; row += kDinoWarps) {
    const float of_row = log_sum_exp_of(parts.of_row(sample, row), parts.tiles, lane);
    if (lane != 0) continue;
    lse[row] = of_row;
    float* to = static_cast<float*>(row < 2 ? args.teacher_lse : args.student_lse);
    to[row < 2 ? 2 * sample + row : args.student_row(sample, row - 2)] = of_row;
  }
  __syncthreads();
  for (std::int64_t row = warp; row < parts.rows; row += kDinoWarps) {
    float term = 0;
    for (int a = 0; a < 2; ++a) {
      // The entropy of a teacher's row, or a pair of different views.
      const bool counts = row < 2 ? a == row : a != row - 2;
      if (!counts) continue;
      term += dot_of_rows(parts.of_row(sample, a), lse[a], row >= 2 && a == 1,
                          parts.of_row(sample, row), lse[row], parts.tiles, lane);
    }
    if (lane == 0) terms[row] = term;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  DinoSampleSums all{};
  for (std::int64_t row = 0; row < parts.rows; ++row) {
    (row < 2 ? all.entropy : row < 4 ? all.loss_global : all.loss_local) += terms[row];
  }
  sums[sample] = all;
}

// One block.
__global__ void __launch_bounds__(kDinoThreads)
    dino_loss_means_kernel(DinoLossForward args, const DinoSampleSums* sums,
                           const float* center_squares, std::int64_t tiles) {
  DTN_SHARED(double, scratch);
  DinoSampleSums all{};
  for (std::int64_t i = threadIdx.x; i < args.samples; i += kDinoThreads) {
    all.entropy += sums[i].entropy;
    all.loss_global += sums[i].loss_global;
    all.loss_local += sums[i].loss_local;
  }
  double squares = 0;
  for (std::int64_t t = threadIdx.x; t < tiles; t += kDinoThreads) squares += center_squares[t];
  all.entropy = cuda::block_sum(all.entropy, scratch);
  all.loss_global = cuda::block_sum(all.loss_global, scratch);
  all.loss_local = cuda::block_sum(all.loss_local, scratch);
  squares = cuda::block_sum_once(squares, scratch);
  if (threadIdx.x != 0) return;
  const double n = static_cast<double>(args.samples);
  const double local_pairs = static_cast<double>(2 * args.local_views) * n;
  const auto write = [](void* to, double value) {
    *static_cast<float*>(to) = static_cast<float>(value);
  };
  write(args.teacher_entropy, all.entropy / (2 * n));
  write(args.loss_global, all.loss_global / (2 * n));
  write(args.loss_local, args.local_views > 0 ? all.loss_local / local_pairs : 0);
  write(args.loss, (all.loss_global + all.loss_local) / (static_cast<double>(args.pairs()) * n));
  write(args.center_norm, sqrt(squares));
}

// Returns true if rows of logits and parameters can be read 16 bytes at a time.
template <class T>
bool has_wide_tiles(const DinoLossInputs& in) {
  bool wide = true;
  for (const void* p : {in.student, in.teacher}) {
    wide = wide && cuda::is_vectorizable<T>(p, in.outputs);
  }
  for (const void* p : {in.student_scale, in.teacher_scale, in.center}) {
    wide = wide && cuda::is_vectorizable<float>(p, in.outputs);
  }
  return wide;
}

}  // namespace

void run(CudaQueue& queue, const DinoLossForward& args) {
  const DinoLossInputs& in = args;
  const std::int64_t tiles = (in.outputs + kDinoTile - 1) / kDinoTile, rows = 2 + in.views();
  DTN_CHECK(in.samples <= 65535, "dino_loss: ", in.samples, " samples; a grid has at most 65535");
  auto memory = queue.scratch<DinoPart>(in.samples * rows * tiles);
  auto squares = queue.scratch<float>(tiles);
  auto sums = queue.scratch<DinoSampleSums>(in.samples);
  const DinoParts parts{memory.get(), rows, tiles};
  const dim3 grid(blocks_for(tiles, kDinoWarps).x, static_cast<unsigned>(in.samples));
  for_cuda_dtype("dino_loss_tiles", in.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(
        queue, {"dino_loss_tiles", {in.samples, in.views(), in.outputs}},
        has_wide_tiles<T>(in) ? dino_loss_tiles_kernel<T, true> : dino_loss_tiles_kernel<T, false>,
        {grid, kDinoThreads, 0}, in, parts, squares.get());
  });
  launch(
      queue, {"dino_loss_samples", {in.samples, in.views(), tiles}}, dino_loss_samples_kernel,
      {blocks_for(in.samples, 1), kDinoThreads, 2 * static_cast<std::size_t>(rows) * sizeof(float)},
      args, parts, sums.get());
  launch(queue, {"dino_loss_means", {in.samples}}, dino_loss_means_kernel,
         {1, kDinoThreads, kDinoWarps * sizeof(double)}, args,
         static_cast<const DinoSampleSums*>(sums.get()), static_cast<const float*>(squares.get()),
         tiles);
}

}  // namespace dtn
