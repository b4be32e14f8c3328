// Slices selected by an index; see select.h. In the backward pass, a thread owns an element of the
// slices and goes through the index in order, so the order of the sums is fixed. If x is one small
// table (outer = 1), a block owns a tile of one row instead, in one chunk of the index.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/partials.cuh"
#include "kernels/primitive/select.h"

namespace dtn {
namespace {

constexpr int kThreads = 256;
// Each block of a table reads the index of its whole chunk, so the work grows with the blocks per
// chunk. Above this number, one thread per column is estimated to be faster on an H100.
constexpr std::int64_t kMaxBlocksOfChunk = 8192;

template <class T, class Index>
__global__ void __launch_bounds__(kThreads) select_forward_kernel(SelectForward args) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= args.outer * args.count * args.inner) return;
  const cuda::RowColumn at = cuda::row_and_column<Index>(i, args.inner);
  const cuda::RowColumn of = cuda::row_and_column<Index>(at.row, args.count);
  const std::int64_t from = args.index[of.column];
  const bool valid = 0 <= from && from < args.extent;
  static_cast<T*>(args.y)[i] =
      valid ? static_cast<const T*>(args.x)[(of.row * args.extent + from) * args.inner + at.column]
            : cuda::from_float<T>(__uint_as_float(0x7fc00000u));
}

template <class T>
__global__ void __launch_bounds__(kThreads) select_backward_kernel(SelectBackward args) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= args.outer * args.inner) return;
  const std::int64_t o = i / args.inner, column = i % args.inner;
  const T* dy = static_cast<const T*>(args.dy) + o * args.count * args.inner + column;
  float* dx = static_cast<float*>(args.dx) + o * args.extent * args.inner + column;
  for (std::int64_t r = 0; r < args.count; ++r) {
    const std::int64_t to = args.index[r];
    if (0 <= to && to < args.extent) dx[to * args.inner] += cuda::to_float(dy[r * args.inner]);
  }
}

// Each block adds, in order, the rows of its chunk that were taken from its row of the table. No
// other block writes there. A single chunk is added to the table (+=). Several chunks are stored
// separately (=). Blocks: [chunk, row of the table, tile of kThreads columns].
template <class T>
__global__ void __launch_bounds__(kThreads)
    select_table_backward_kernel(SelectBackward a, std::int64_t chunk_rows, std::int64_t tiles,
                                 bool single, float* sums) {
  const std::int64_t c = blockIdx.x % tiles * kThreads + threadIdx.x;
  const std::int64_t to = blockIdx.x / tiles % a.extent, chunk = blockIdx.x / tiles / a.extent;
  if (c >= a.inner) return;
  const std::int64_t first = chunk * chunk_rows;
  const std::int64_t end = first + chunk_rows < a.count ? first + chunk_rows : a.count;
  float sum = 0;
  bool taken = false;
#pragma unroll 4
  for (std::int64_t r = first; r < end; ++r) {
    if (a.index[r] != to) continue;
    sum += cuda::to_float(static_cast<const T*>(a.dy)[r * a.inner + c]);
    taken = true;
  }
  if (!single) {
    sums[(chunk * a.extent + to) * a.inner + c] = sum;
  } else if (taken) {
    sums[to * a.inner + c] += sum;
  }
}

std::int64_t tiles_of(std::int64_t inner) { return (inner + kThreads - 1) / kThreads; }

// Returns the rows per chunk: 1024, so that many chunks are summed at once, or more if the sums of
// all chunks would exceed kSums values.
std::int64_t rows_of_chunk(const SelectBackward& args) {
  constexpr std::int64_t kRows = 1024, kSums = std::int64_t{1} << 23;
  const std::int64_t most = kSums / (args.extent * args.inner);
  const std::int64_t chunks = most < 1 ? 1 : most;
  const std::int64_t rows = (args.count + chunks - 1) / chunks;
  return rows < kRows ? kRows : rows;
}

template <class T>
void table_backward(CudaQueue& queue, const SelectBackward& args) {
  const std::int64_t chunk_rows = rows_of_chunk(args), table = args.extent * args.inner;
  const std::int64_t chunks = (args.count + chunk_rows - 1) / chunk_rows;
  const std::int64_t tiles = tiles_of(args.inner);
  auto* dx = static_cast<float*>(args.dx);
  auto launch_chunks = [&](float* sums) {
    launch(queue, {"select_backward", {args.outer, args.extent, args.inner, args.count}},
           select_table_backward_kernel<T>, {blocks_for(chunks * args.extent * tiles, 1), kThreads},
           args, chunk_rows, tiles, chunks == 1, sums);
  };
  if (chunks == 1) return launch_chunks(dx);
  const auto sums = queue.scratch<float>(chunks * table);
  launch_chunks(sums.get());
  cuda::add_partials(queue, "select_sums",
                     cuda::Partials{sums.get(), chunks, table, 1, {dx, nullptr}});
}

}  // namespace

void run(CudaQueue& queue, const SelectForward& args) {
  for_cuda_dtype("select_forward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t count = args.outer * args.count * args.inner;
    if (count == 0) return;
    cuda::for_index(count, [&](auto index) {
      launch(queue, {"select_forward", {args.outer, args.extent, args.inner, args.count}},
             select_forward_kernel<T, decltype(index)>, {blocks_for(count, kThreads), kThreads},
             args);
    });
  });
}

void run(CudaQueue& queue, const SelectBackward& args) {
  for_cuda_dtype("select_backward", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.outer * args.extent * args.inner == 0 || args.count == 0) return;
    if (args.outer == 1 && args.extent * tiles_of(args.inner) <= kMaxBlocksOfChunk) {
      return table_backward<T>(queue, args);
    }
    launch(queue, {"select_backward", {args.outer, args.extent, args.inner, args.count}},
           select_backward_kernel<T>, {blocks_for(args.outer * args.inner, kThreads), kThreads},
           args);
  });
}

}  // namespace dtn
