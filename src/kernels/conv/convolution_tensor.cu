// The products of a convolution on tensor cores, in bfloat16; see convolution.cu. A block of eight
// warps computes 128 x 64 or 128 x 128 results, a warp 32 rows of half of the columns. Patches are
// copied into shared memory asynchronously, eight channels at a time; channels outside the grid are
// zeros. Of three stages, two are being copied while one is multiplied.
#include "kernels/conv/convolution_cuda.cuh"
#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace dtn::cuda {
namespace {

constexpr int kRows = kTensorTile.rows, kDepth = kTensorTile.depth;
static_assert(kWideTensorTile.rows == kRows && kWideTensorTile.depth == kDepth);
constexpr int kThreads = 256, kStages = 3;
// Row strides in shared memory: an odd number of 16-byte units, so that the eight rows that one
// phase of load_matrices reads lie in different banks.
constexpr int kDepthStride = kDepth + 8, kRowsStride = kRows + 8;

// The factors of a stage. A is [kRows, kDepth], or transposed [kDepth, kRows]; B is
// [kDepth, kColumns].
template <bool kTransposed, int kColumns>
struct Stage {
  static constexpr int kColumnsStride = kColumns + 8;
  static constexpr int kA = kTransposed ? kDepth * kRowsStride : kRows * kDepthStride;
  static constexpr int kSize = kA + kDepth * kColumnsStride;
  static constexpr std::size_t kBytes = kStages * kSize * sizeof(bfloat16);
};

// The results of a warp: two rows of fragments of 16 x 8.
template <int kColumns>
struct WarpTile {
  static constexpr int kAcross = kColumns / 16;
  static constexpr int kColumnsStride = kColumns + 8;
  float sum[2][kAcross][4] = {};
  int lane, first_row, first_column;

  __device__ __forceinline__ WarpTile()
      : lane(static_cast<int>(threadIdx.x) % kWarpSize),
        first_row(static_cast<int>(threadIdx.x) / kWarpSize % 4 * 32),
        first_column(static_cast<int>(threadIdx.x) / kWarpSize / 4 * (kColumns / 2)) {}

  template <bool kTransposed>
  __device__ __forceinline__ void multiply(const bfloat16* a, const bfloat16* b) {
    const int in_matrix = lane % 8, odd = lane / 8 % 2 * 8, upper = lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      unsigned left[2][4], right[kAcross / 2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = first_row + i * 16;
        if constexpr (kTransposed) {
          load_matrices<true>(left[i], a + (k + upper + in_matrix) * kRowsStride + row + odd);
        } else {
          load_matrices<false>(left[i], a + (row + odd + in_matrix) * kDepthStride + k + upper);
        }
      }
#pragma unroll
      for (int i = 0; i < kAcross / 2; ++i) {
        load_matrices<true>(
            right[i], b + (k + odd + in_matrix) * kColumnsStride + first_column + i * 16 + upper);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
          const unsigned column[2] = {right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]};
          mma_bf16(sum[i][j], left[i], column);
        }
      }
    }
  }

  // Calls f(row, column, first, second) for pairs of adjacent results.
  template <class F>
  __device__ __forceinline__ void for_pairs(F&& f) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + i * 16 + half * 8 + lane / 4;
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
          f(row, first_column + j * 8 + lane % 4 * 2, sum[i][j][half * 2], sum[i][j][half * 2 + 1]);
        }
      }
    }
  }
};

// Sums over `steps` stages; fetch(copies, step, a, b) starts the copies of one stage.
template <bool kTransposed, int kColumns, class Fetch>
__device__ __forceinline__ void multiply_stages(bfloat16* shared, int steps,
                                                WarpTile<kColumns>& tile, const Fetch& fetch) {
  using Shape = Stage<kTransposed, kColumns>;
  AsyncCopies copies;
  auto start = [&](int step) {
    bfloat16* a = shared + step % kStages * Shape::kSize;
    if (step < steps) fetch(copies, step, a, a + Shape::kA);
    copies.commit();
  };
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) start(step);
  for (int step = 0; step < steps; ++step) {
    copies.wait<kStages - 2>();
    __syncthreads();  // this stage has arrived, and no thread reads the one before
    start(step + kStages - 1);
    const bfloat16* a = shared + step % kStages * Shape::kSize;
    tile.template multiply<kTransposed>(a, a + Shape::kA);
  }
}

// Starts to copy eight columns of a row of patches; zeros unless `valid`.
__device__ __forceinline__ void copy_patch(AsyncCopies& copies, bfloat16* to,
                                           const Sources<bfloat16>& s, std::int64_t group,
                                           const PatchRow& row, const PatchColumn& column,
                                           bool valid) {
  const std::int64_t y = row.y + column.u, x = row.x + column.v;
  valid = valid && y >= 0 && y < s.h.sources && x >= 0 && x < s.w.sources;
  const std::int64_t at =
      (row.image + y * s.w.sources + x) * s.channels + group * s.width + column.c;
  copies.copy<16>(to, valid ? s.from + at : s.from, valid);
}

// Copies kDepth rows of kColumns values with the whole block; a thread copies eight values at a
// time.
template <int kColumns>
struct ColumnCopies {
  static constexpr int kAtOnce = kThreads * 8 / kColumns;  // rows at a time
  static constexpr int kCopies = kDepth / kAtOnce;
  int row = static_cast<int>(threadIdx.x) / (kColumns / 8);
  int column = static_cast<int>(threadIdx.x) % (kColumns / 8) * 8;

  // Starts to copy the rows from + d stride, d < kDepth; zeros from d = depth on or if not
  // `wanted`.
  __device__ __forceinline__ void start(AsyncCopies& copies, bfloat16* to, const bfloat16* from,
                                        std::int64_t stride, std::int64_t depth,
                                        bool wanted) const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int d = row + i * kAtOnce;
      const bool inside = wanted && d < depth;
      copies.copy<16>(to + d * (kColumns + 8) + column, inside ? from + d * stride + column : from,
                      inside);
    }
  }
};

// Blocks: [rows / 128, out / kColumns, groups].
template <int kColumns, class Index>
__global__ void __launch_bounds__(kThreads) convolution_tensor_kernel(Correlation<bfloat16> args) {
  DTN_SHARED(bfloat16, shared);
  const Sources<bfloat16>& s = args.sources;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t group = blockIdx.z, columns = s.columns();
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kRows;
  const std::int64_t first_out = std::int64_t{blockIdx.y} * kColumns;

  // This thread copies eight columns of two rows of patches, and of one or two rows of the kernel.
  const int patch = thread / 4, patch_column = thread % 4 * 8;
  const ColumnCopies<kColumns> kernel;
  constexpr int kApart = kRows / 2;
  bool is_row[2];
  PatchRow rows[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int64_t r = first_row + patch + i * kApart;
    is_row[i] = r < args.rows;
    rows[i] = PatchRow::of<Index>(s, is_row[i] ? r : 0);
  }
  const bfloat16* weight = args.weight + group * columns * args.out + first_out;
  const bool is_out = first_out + kernel.column < args.out;

  WarpTile<kColumns> tile;
  const int steps = static_cast<int>((columns + kDepth - 1) / kDepth);
  multiply_stages<false, kColumns>(
      shared, steps, tile, [&](AsyncCopies& copies, int step, bfloat16* a, bfloat16* b) {
        const std::int64_t k = std::int64_t{step} * kDepth;
        const bool is_column = k + patch_column < columns;
        const PatchColumn column = PatchColumn::of(s, is_column ? k + patch_column : 0);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          copy_patch(copies, a + (patch + i * kApart) * kDepthStride + patch_column, s, group,
                     rows[i], column, is_row[i] && is_column);
        }
        kernel.start(copies, b, weight + k * args.out, args.out, columns - k, is_out);
      });

  std::int64_t last = -1;
  bfloat16* to = nullptr;
  tile.for_pairs([&](int row, int column, float first, float second) {
    const std::int64_t r = first_row + row, o = first_out + column;
    if (r >= args.rows || o >= args.out) return;
    if (r != last) to = args.target<Index>(r, group), last = r;
    const float* bias = args.bias ? args.bias + group * args.out + o : nullptr;
    *reinterpret_cast<unsigned*>(to + o) =
        pack_bfloat16(bias ? first + bias[0] : first, bias ? second + bias[1] : second);
  });
}

// Blocks: [columns / 128, out / kColumns, shares groups].
template <int kColumns, class Index>
__global__ void __launch_bounds__(kThreads)
    convolution_weight_tensor_kernel(WeightGradient<bfloat16> args) {
  DTN_SHARED(bfloat16, shared);
  const Sources<bfloat16>& s = args.sources;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t group = blockIdx.z % args.groups, part = blockIdx.z / args.groups;
  const std::int64_t columns = s.columns();
  const std::int64_t first_column = std::int64_t{blockIdx.x} * kRows;
  const std::int64_t first_out = std::int64_t{blockIdx.y} * kColumns;
  const std::int64_t begin = part * args.share;
  const std::int64_t end =
      begin + args.share < args.positions ? begin + args.share : args.positions;

  // This thread copies eight columns of the patches of two positions, and of the dy of one or two.
  const int patch = thread / 16, patch_column = thread % 16 * 8;
  const ColumnCopies<kColumns> outputs;
  constexpr int kApart = kDepth / 2;
  const bool is_column = first_column + patch_column < columns;
  const PatchColumn column = PatchColumn::of(s, is_column ? first_column + patch_column : 0);
  const bfloat16* dy = args.dy + group * args.out + first_out;
  const bool is_out = first_out + outputs.column < args.out;

  WarpTile<kColumns> tile;
  const int steps = static_cast<int>((end - begin + kDepth - 1) / kDepth);
  multiply_stages<true, kColumns>(
      shared, steps, tile, [&](AsyncCopies& copies, int step, bfloat16* a, bfloat16* b) {
        const std::int64_t k = begin + std::int64_t{step} * kDepth;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int d = patch + i * kApart;
          const bool inside = k + d < end;
          const PatchRow row = PatchRow::of<Index>(s, inside ? k + d : 0);
          copy_patch(copies, a + d * kRowsStride + patch_column, s, group, row, column,
                     is_column && inside);
        }
        outputs.start(copies, b, dy + k * args.channels, args.channels, end - k, is_out);
      });

  float* to = args.partials + std::int64_t{blockIdx.z} * columns * args.out;
  tile.for_pairs([&](int row, int pair, float first, float second) {
    const std::int64_t k = first_column + row, o = first_out + pair;
    if (k >= columns || o >= args.out) return;
    *reinterpret_cast<float2*>(to + k * args.out + o) = make_float2(first, second);
  });
}

// Calls f(columns of a tile as an integral constant, Index{}).
template <class F>
void for_tile(std::int64_t out, std::int64_t rows, F&& f) {
  for_index(rows, [&](auto index) {
    if (tensor_tile(out).columns == kWideTensorTile.columns) {
      f(std::integral_constant<int, kWideTensorTile.columns>{}, index);
    } else {
      f(std::integral_constant<int, kTensorTile.columns>{}, index);
    }
  });
}

}  // namespace

void correlate_tensor(CudaQueue& queue, const char* name, const Correlation<bfloat16>& args,
                      std::int64_t groups) {
  for_tile(args.out, args.rows, [&](auto columns, auto index) {
    const dim3 grid(blocks_for(args.rows, kRows).x, blocks_for(args.out, columns).x,
                    static_cast<unsigned>(groups));
    launch(queue, {name, {args.rows, args.sources.columns(), args.out, groups}},
           convolution_tensor_kernel<columns, decltype(index)>,
           {grid, kThreads, Stage<false, columns>::kBytes}, args);
  });
}

void weight_gradient_tensor(CudaQueue& queue, const WeightGradient<bfloat16>& args) {
  const std::int64_t columns = args.sources.columns();
  const std::int64_t shares = (args.positions + args.share - 1) / args.share;
  for_tile(args.out, args.positions, [&](auto across, auto index) {
    const dim3 grid(blocks_for(columns, kRows).x, blocks_for(args.out, across).x,
                    static_cast<unsigned>(shares * args.groups));
    launch(queue, {"convolution_backward_weight", {args.positions, columns, args.out, args.groups}},
           convolution_weight_tensor_kernel<across, decltype(index)>,
           {grid, kThreads, Stage<true, across>::kBytes}, args);
  });
}

}  // namespace dtn::cuda
