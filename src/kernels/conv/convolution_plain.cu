// The products of a convolution on CUDA cores, in float32 for both types; see convolution.cu. A
// block computes 128 x 64 results, a thread 8 x 8 of them: two groups of four rows and of four
// columns. So the values of a factor that a quarter of a warp reads at once are adjacent. Threads
// gather the next pieces of both factors into registers while the current ones are multiplied.
#include "kernels/conv/convolution_cuda.cuh"

namespace dtn::cuda {
namespace {

constexpr int kRows = kPlainTile.rows, kColumns = kPlainTile.columns, kDepth = kPlainTile.depth;
constexpr int kThreads = 128;
// The factors are [kDepth, kRows] and [kDepth, kColumns] in shared memory.
constexpr int kRowsStride = kRows + 4, kColumnsStride = kColumns + 4;
constexpr std::size_t kTileBytes = kDepth * (kRowsStride + kColumnsStride) * sizeof(float);
static_assert(kRows == 128 && kColumns == 64 && kDepth == 16);

// The results of a thread.
struct ThreadTile {
  float sum[8][8] = {};

  // The row of result i, and the column of result j, in the tile.
  static __device__ __forceinline__ int row(int i) {
    return static_cast<int>(threadIdx.x) / 8 * 4 + i % 4 + i / 4 * (kRows / 2);
  }
  static __device__ __forceinline__ int column(int j) {
    return static_cast<int>(threadIdx.x) % 8 * 4 + j % 4 + j / 4 * (kColumns / 2);
  }
  __device__ __forceinline__ void multiply(const float* a, const float* b) {
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float x[2][4], y[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        load_values(a + k * kRowsStride + row(4 * half), x[half]);
        load_values(b + k * kColumnsStride + column(4 * half), y[half]);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(x[i / 4][i % 4], y[j / 4][j % 4], sum[i][j]);
      }
    }
  }
};

// Sums over [begin, end). fetch(k) loads the next pieces into registers; put() writes them to
// shared memory.
template <class Fetch, class Put>
__device__ __forceinline__ void multiply_pieces(std::int64_t begin, std::int64_t end,
                                                const float* a, const float* b, ThreadTile& tile,
                                                const Fetch& fetch, const Put& put) {
  if (begin < end) fetch(begin);
  for (std::int64_t k = begin; k < end; k += kDepth) {
    put();
    __syncthreads();
    if (k + kDepth < end) fetch(k + kDepth);
    tile.multiply(a, b);
    __syncthreads();
  }
}

// Blocks: [rows / 128, out / 64, groups].
template <class T, class Index>
__global__ void __launch_bounds__(kThreads) convolution_kernel(Correlation<T> args) {
  DTN_SHARED(float, shared);
  float *a = shared, *b = shared + kDepth * kRowsStride;
  const Sources<T>& s = args.sources;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t group = blockIdx.z, columns = s.columns();
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kRows;
  const std::int64_t first_out = std::int64_t{blockIdx.y} * kColumns;

  // This thread gathers eight columns of two rows of patches, and eight of one row of the kernel.
  const int patch = thread / 2, patch_column = thread % 2 * 8;
  const int kernel_row = thread / 8, kernel_column = thread % 8 * 4;
  bool is_row[2];
  PatchRow rows[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int64_t r = first_row + patch + i * (kRows / 2);
    is_row[i] = r < args.rows;
    rows[i] = PatchRow::of<Index>(s, is_row[i] ? r : 0);
  }
  const T* weight = args.weight + group * columns * args.out;
  const bool wide = args.out % 4 == 0;
  float next_a[2][2][4], next_b[2][4];

  ThreadTile tile;
  multiply_pieces(
      0, columns, a, b, tile,
      [&](std::int64_t first) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::int64_t k = first + patch_column + 4 * half;
          const PatchColumn column = PatchColumn::of(s, k);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            load_four(s, group, rows[i], column, k, is_row[i] ? columns : 0, next_a[i][half]);
          }
          const bool inside = first + kernel_row < columns;
          load_row(weight + (inside ? first + kernel_row : 0) * args.out,
                   first_out + kernel_column + half * (kColumns / 2), inside ? args.out : 0, wide,
                   next_b[half]);
        }
      },
      [&] {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int q = 0; q < 4; ++q) {
              a[(patch_column + 4 * half + q) * kRowsStride + patch + i * (kRows / 2)] =
                  next_a[i][half][q];
            }
          }
          store_values(b + kernel_row * kColumnsStride + kernel_column + half * (kColumns / 2),
                       next_b[half]);
        }
      });

#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t r = first_row + ThreadTile::row(i);
    if (r >= args.rows) continue;
    T* to = args.template target<Index>(r, group);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const std::int64_t o = first_out + ThreadTile::column(j);
      if (o >= args.out) continue;
      const float bias = args.bias ? args.bias[group * args.out + o] : 0.0f;
      to[o] = from_float<T>(tile.sum[i][j] + bias);
    }
  }
}

// Blocks: [columns / 128, out / 64, shares groups].
template <class T, class Index>
__global__ void __launch_bounds__(kThreads) convolution_weight_kernel(WeightGradient<T> args) {
  DTN_SHARED(float, shared);
  float *a = shared, *b = shared + kDepth * kRowsStride;
  const Sources<T>& s = args.sources;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t group = blockIdx.z % args.groups, part = blockIdx.z / args.groups;
  const std::int64_t columns = s.columns();
  const std::int64_t first_column = std::int64_t{blockIdx.x} * kRows;
  const std::int64_t first_out = std::int64_t{blockIdx.y} * kColumns;
  const std::int64_t begin = part * args.share;
  const std::int64_t end =
      begin + args.share < args.positions ? begin + args.share : args.positions;

  // This thread gathers sixteen columns of the patch of one position, and eight of its gradient.
  constexpr int kApart = 32;
  const int depth = thread / 8, first = thread % 8 * 4;
  PatchColumn patch_columns[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    patch_columns[i] = PatchColumn::of(s, first_column + first + i * kApart);
  }
  float next_a[4][4], next_b[2][4];

  ThreadTile tile;
  multiply_pieces(
      begin, end, a, b, tile,
      [&](std::int64_t k) {
        const bool inside = k + depth < end;
        const std::int64_t position = inside ? k + depth : 0;
        const PatchRow row = PatchRow::of<Index>(s, position);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          load_four(s, group, row, patch_columns[i], first_column + first + i * kApart,
                    inside ? columns : 0, next_a[i]);
        }
        const T* dy = args.dy + position * args.channels + group * args.out;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          load_row(dy, first_out + first + i * kApart, inside ? args.out : 0, args.wide, next_b[i]);
        }
      },
      [&] {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          store_values(a + depth * kRowsStride + first + i * kApart, next_a[i]);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          store_values(b + depth * kColumnsStride + first + i * kApart, next_b[i]);
        }
      });

  float* to = args.partials + std::int64_t{blockIdx.z} * columns * args.out;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t k = first_column + ThreadTile::row(i);
    if (k >= columns) continue;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const std::int64_t o = first_out + ThreadTile::column(j);
      if (o < args.out) to[k * args.out + o] = tile.sum[i][j];
    }
  }
}

}  // namespace

template <class T>
void correlate_plain(CudaQueue& queue, const char* name, const Correlation<T>& args,
                     std::int64_t groups) {
  const dim3 grid(blocks_for(args.rows, kRows).x, blocks_for(args.out, kColumns).x,
                  static_cast<unsigned>(groups));
  for_index(args.rows, [&](auto index) {
    launch(queue, {name, {args.rows, args.sources.columns(), args.out, groups}},
           convolution_kernel<T, decltype(index)>, {grid, kThreads, kTileBytes}, args);
  });
}

template <class T>
void weight_gradient_plain(CudaQueue& queue, const WeightGradient<T>& args) {
  const std::int64_t columns = args.sources.columns();
  const std::int64_t shares = (args.positions + args.share - 1) / args.share;
  const dim3 grid(blocks_for(columns, kRows).x, blocks_for(args.out, kColumns).x,
                  static_cast<unsigned>(shares * args.groups));
  for_index(args.positions, [&](auto index) {
    launch(queue, {"convolution_backward_weight", {args.positions, columns, args.out, args.groups}},
           convolution_weight_kernel<T, decltype(index)>, {grid, kThreads, kTileBytes}, args);
  });
}

template void correlate_plain(CudaQueue&, const char*, const Correlation<float>&, std::int64_t);
template void correlate_plain(CudaQueue&, const char*, const Correlation<bfloat16>&, std::int64_t);
template void weight_gradient_plain(CudaQueue&, const WeightGradient<float>&);
template void weight_gradient_plain(CudaQueue&, const WeightGradient<bfloat16>&);

}  // namespace dtn::cuda
