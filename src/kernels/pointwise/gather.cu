// Neighbours of tokens and rows of tables; see gather.h. Copies and small sums, limited by memory.
// Each output is written once, in vectors. Data that tokens share as neighbours comes from the
// cache.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/partials.cuh"
#include "kernels/pointwise/gather.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;

// Image, grid position and channel of an element.
template <class Index>
struct Place {
  std::int64_t image, i, j, channel;
  __device__ __forceinline__ Place(std::int64_t token, std::int64_t c, std::int64_t h,
                                   std::int64_t w) {
    const cuda::RowColumn line = cuda::row_and_column<Index>(token, w);
    const cuda::RowColumn grid = cuda::row_and_column<Index>(line.row, h);
    image = grid.row, i = grid.column, j = line.column, channel = c;
  }
};

template <class T, class Index>
struct NeighboursMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 1;
  const T* x;
  T* y;
  std::int64_t h, w, channels;

  template <int n>
  __device__ void load(std::int64_t index, float (&v)[1][n]) const {
    const cuda::RowColumn of = cuda::row_and_column<Index>(index, channels);
    const cuda::RowColumn from = cuda::row_and_column<Index>(of.row, 9);
    const Place<Index> at(from.row, of.column, h, w);
    const auto k = static_cast<int>(from.column);
    const std::int64_t i = at.i + k / 3 - 1, j = at.j + k % 3 - 1;
    for (int e = 0; e < n; ++e) v[0][e] = 0;
    if (0 <= i && i < h && 0 <= j && j < w) {
      cuda::load_values(x + ((at.image * h + i) * w + j) * channels + at.channel, v[0]);
    }
  }
  template <int n>
  __device__ void store(std::int64_t index, float (&v)[1][n]) const {
    cuda::store_values(y + index, v[0]);
  }
};

template <class T, class Index>
struct NeighboursBackwardMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 1, kInputs = 1;
  const T* dy;
  T* dx;
  std::int64_t h, w, channels;

  template <int n>
  __device__ void load(std::int64_t, float (&)[1][n]) const {}
  template <int n>
  __device__ void store(std::int64_t index, float (&)[1][n]) const {
    const cuda::RowColumn of = cuda::row_and_column<Index>(index, channels);
    const Place<Index> at(of.row, of.column, h, w);
    float sum[n] = {};
#pragma unroll
    for (int k = 0; k < 9; ++k) {
      const std::int64_t i = at.i - k / 3 + 1, j = at.j - k % 3 + 1;
      if (i < 0 || i >= h || j < 0 || j >= w) continue;
      float d[n];
      cuda::load_values(dy + (((at.image * h + i) * w + j) * 9 + k) * channels + at.channel, d);
      for (int e = 0; e < n; ++e) sum[e] += d[e];
    }
    cuda::store_values(dx + index, sum);
  }
};

// Blocks: [row, columns / kThreads].
__global__ void __launch_bounds__(kThreads)
    take_rows_kernel(const float* table, const std::int64_t* index, std::int64_t table_rows,
                     std::int64_t columns, std::int64_t tiles, float* y) {
  const std::int64_t row = blockIdx.x / tiles;
  const std::int64_t c = blockIdx.x % tiles * kThreads + threadIdx.x;
  if (c >= columns) return;
  const std::int64_t from = index[row];
  const bool valid = 0 <= from && from < table_rows;
  y[row * columns + c] = valid ? table[from * columns + c] : __uint_as_float(0x7fffffffu);
}

// Gradients of rows that were taken from a table, a chunk of rows at a time.
struct TakenRows {
  const float* dy;
  const std::int64_t* index;
  std::int64_t rows, columns, table_rows, tiles;
  std::int64_t chunk;  // rows per chunk

  std::int64_t chunks() const { return (rows + chunk - 1) / chunk; }
};

// Each block adds, in order, the rows of its chunk that were taken from its table row. No other
// block writes there. A single chunk is added to the table (+=). Several chunks are stored
// separately (=). Blocks: [chunk, row of the table, columns / kThreads].
__global__ void __launch_bounds__(kThreads)
    take_rows_backward_kernel(TakenRows a, bool single, float* sums) {
  const std::int64_t c = blockIdx.x % a.tiles * kThreads + threadIdx.x;
  const std::int64_t to = blockIdx.x / a.tiles % a.table_rows;
  const std::int64_t chunk = blockIdx.x / a.tiles / a.table_rows;
  if (c >= a.columns) return;
  const std::int64_t first = chunk * a.chunk;
  const std::int64_t end = first + a.chunk < a.rows ? first + a.chunk : a.rows;
  float sum = 0;
  bool taken = false;
#pragma unroll 4
  for (std::int64_t r = first; r < end; ++r) {
    if (a.index[r] != to) continue;
    sum += a.dy[r * a.columns + c];
    taken = true;
  }
  if (!single) {
    sums[(chunk * a.table_rows + to) * a.columns + c] = sum;
  } else if (taken) {
    sums[to * a.columns + c] += sum;
  }
}

// Returns the rows per chunk: 1024, so that many chunks are summed at once, or more if the sums of
// all chunks would exceed kSums values.
std::int64_t rows_of_chunk(const TakeRowsBackward& args) {
  constexpr std::int64_t kRows = 1024, kSums = std::int64_t{1} << 23;
  const std::int64_t most = kSums / (args.table_rows * args.columns);
  const std::int64_t chunks = most < 1 ? 1 : most;
  const std::int64_t rows = (args.rows + chunks - 1) / chunks;
  return rows < kRows ? kRows : rows;
}

void require_float32(const char* kernel, DType dtype) {
  if (dtype == DType::kFloat32) return;
  throw Error(cat(kernel, ": ", name_of(dtype), " is not computed on CUDA devices; float32 is"));
}

}  // namespace

void run(CudaQueue& queue, const NeighboursForward& args) {
  for_cuda_dtype("neighbours_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t count = args.batch * args.grid_h * args.grid_w * 9 * args.channels;
    cuda::for_index(count, [&](auto index) {
      cuda::launch_map(
          queue, "neighbours_forward",
          NeighboursMap<T, decltype(index)>{static_cast<const T*>(args.x), static_cast<T*>(args.y),
                                            args.grid_h, args.grid_w, args.channels},
          count,
          cuda::is_vectorizable<T>(args.x, args.channels) &&
              cuda::is_vectorizable<T>(args.y, args.channels));
    });
  });
}

void run(CudaQueue& queue, const NeighboursBackward& args) {
  for_cuda_dtype("neighbours_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t count = args.batch * args.grid_h * args.grid_w * args.channels;
    cuda::for_index(9 * count, [&](auto index) {
      cuda::launch_map(queue, "neighbours_backward",
                       NeighboursBackwardMap<T, decltype(index)>{
                           static_cast<const T*>(args.dy), static_cast<T*>(args.dx), args.grid_h,
                           args.grid_w, args.channels},
                       count,
                       cuda::is_vectorizable<T>(args.dy, args.channels) &&
                           cuda::is_vectorizable<T>(args.dx, args.channels));
    });
  });
}

void run(CudaQueue& queue, const TakeRowsForward& args) {
  require_float32("take_rows_forward", args.dtype);
  if (args.rows == 0 || args.columns == 0) return;
  const std::int64_t tiles = (args.columns + kThreads - 1) / kThreads;
  launch(queue, {"take_rows_forward", {args.rows, args.columns}}, take_rows_kernel,
         {blocks_for(args.rows * tiles, 1), kThreads}, static_cast<const float*>(args.table),
         args.index, args.table_rows, args.columns, tiles, static_cast<float*>(args.y));
}

void run(CudaQueue& queue, const TakeRowsBackward& args) {
  require_float32("take_rows_backward", args.dtype);
  if (args.rows == 0 || args.columns == 0 || args.table_rows == 0) return;
  const TakenRows taken{static_cast<const float*>(args.dy),
                        args.index,
                        args.rows,
                        args.columns,
                        args.table_rows,
                        (args.columns + kThreads - 1) / kThreads,
                        rows_of_chunk(args)};
  auto* dtable = static_cast<float*>(args.dtable);
  const std::int64_t chunks = taken.chunks(), table = args.table_rows * args.columns;
  const dim3 blocks = blocks_for(chunks * args.table_rows * taken.tiles, 1);
  const KernelName name{"take_rows_backward", {args.rows, args.columns}};
  if (chunks == 1) {
    launch(queue, name, take_rows_backward_kernel, {blocks, kThreads}, taken, true, dtable);
    return;
  }
  const auto sums = queue.scratch<float>(chunks * table);
  launch(queue, name, take_rows_backward_kernel, {blocks, kThreads}, taken, false, sums.get());
  cuda::add_partials(queue, "take_rows_sums",
                     cuda::Partials{sums.get(), chunks, table, 1, {dtable, nullptr}});
}

}  // namespace dtn
