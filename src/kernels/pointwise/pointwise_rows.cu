// Kernels over rows: sums and means of columns and their gradients, strided copies, and the mean of
// a few values.
//
// Column sums: a block takes a chunk of rows and a tile of columns. `lanes` adjacent threads each
// read 16 bytes of a row. The groups of `lanes` threads take the rows in turn, with four loads in
// flight. The sums of the groups are added in shared memory, in order. Rows are split into chunks
// of at least 128, for about 512 blocks on any device; an H200 runs 512 blocks at once. A second
// launch adds the sums of the chunks, which are at most a hundredth of the data read.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/partials.cuh"
#include "kernels/cuda/sums.cuh"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

constexpr int kSumRowsThreads = 256;
constexpr int kCopyThreads = 256;
constexpr int kCopyUnits = 4;  // per thread

struct ColumnSums {
  std::int64_t rows, columns, chunk_rows;
  std::int64_t tiles;  // of `lanes` vectors of columns
  int lanes;
};

// Calls store(chunk columns + column, sum) for every column. n is 1 or divides columns.
template <int n, class T, class Store>
__global__ void column_sums_kernel(const T* x, ColumnSums shape, Store store) {
  DTN_SHARED(float, sums);  // [groups, lanes n]
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % shape.lanes, group = thread / shape.lanes;
  const int groups = kSumRowsThreads / shape.lanes;
  const std::int64_t chunk = blockIdx.x / shape.tiles, tile = blockIdx.x % shape.tiles;
  const std::int64_t begin = chunk * shape.chunk_rows;
  const std::int64_t end =
      begin + shape.chunk_rows < shape.rows ? begin + shape.chunk_rows : shape.rows;
  const std::int64_t column = (tile * shape.lanes + lane) * n;
  float sum[n] = {};
  if (column < shape.columns) {
    const T* p = x + (begin + group) * shape.columns + column;
    const std::int64_t step = groups * shape.columns;
    std::int64_t r = begin + group;
    for (; r + 3 * groups < end; r += 4 * groups, p += 4 * step) {
      float v[4][n];
#pragma unroll
      for (int j = 0; j < 4; ++j) cuda::load_values(p + j * step, v[j]);
#pragma unroll
      for (int k = 0; k < n; ++k) sum[k] += (v[0][k] + v[1][k]) + (v[2][k] + v[3][k]);
    }
    for (; r < end; r += groups, p += step) {
      float v[n];
      cuda::load_values(p, v);
#pragma unroll
      for (int k = 0; k < n; ++k) sum[k] += v[k];
    }
  }
  cuda::store_values(sums + thread * n, sum);
  __syncthreads();
  const int width = shape.lanes * n;
  for (int j = thread; j < width; j += kSumRowsThreads) {
    const std::int64_t i = tile * width + j;
    if (i >= shape.columns) return;
    float total = sums[j];
    for (int g = 1; g < groups; ++g) total += sums[g * width + j];
    store(chunk * shape.columns + i, total);
  }
}

template <int n, class T, class Store>
void column_sums(CudaQueue& queue, const char* name, const T* x, std::int64_t rows,
                 std::int64_t columns, std::int64_t chunk_rows, const Store& store) {
  const std::int64_t vectors = columns / n, chunks = (rows + chunk_rows - 1) / chunk_rows;
  const int lanes = vectors > 16 ? 32 : vectors > 8 ? 16 : 8;
  const std::int64_t tiles = (vectors + lanes - 1) / lanes;
  launch(queue, {name, {rows, columns}}, column_sums_kernel<n, T, Store>,
         {blocks_for(tiles * chunks, 1), kSumRowsThreads, kSumRowsThreads * n * sizeof(float)}, x,
         ColumnSums{rows, columns, chunk_rows, tiles, lanes}, store);
}

// Reads vectors if x and its rows are aligned.
template <class T, class Store>
void column_sums_of(CudaQueue& queue, const char* name, const T* x, std::int64_t rows,
                    std::int64_t columns, std::int64_t chunk_rows, const Store& store) {
  if (cuda::is_vectorizable<T>(x, columns)) {
    column_sums<cuda::kPerVector<T>>(queue, name, x, rows, columns, chunk_rows, store);
  } else {
    column_sums<1>(queue, name, x, rows, columns, chunk_rows, store);
  }
}

struct StorePartial {
  float* out;
  __device__ void operator()(std::int64_t i, float sum) const { out[i] = sum; }
};
struct Accumulate {
  float* out;
  __device__ void operator()(std::int64_t i, float sum) const { out[i] += sum; }
};
template <class T>
struct StoreMean {
  T* y;
  float rows;
  __device__ void operator()(std::int64_t i, float sum) const {
    y[i] = cuda::from_float<T>(sum / rows);
  }
};

template <class T>
std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kTile = cuda::kWarpSize * cuda::kPerVector<T>;
  const std::int64_t tiles = (columns + kTile - 1) / kTile;
  const std::int64_t n = (rows * tiles + 511) / 512;
  return n < 128 ? 128 : (n + 31) / 32 * 32;
}

// Up to this many chunks, one block per tile of columns has all loads in flight at once. There are
// usually many columns then.
constexpr std::int64_t kFewChunks = 32;

template <class T>
void sum_rows(CudaQueue& queue, const SumRows& args) {
  auto* x = static_cast<const T*>(args.x);
  auto* out = static_cast<float*>(args.out);
  const std::int64_t chunk_rows = rows_per_chunk<T>(args.rows, args.columns);
  const std::int64_t chunks = (args.rows + chunk_rows - 1) / chunk_rows;
  if (chunks == 1) {
    return column_sums_of(queue, "sum_rows", x, args.rows, args.columns, chunk_rows,
                          Accumulate{out});
  }
  auto scratch = queue.scratch<float>(chunks * args.columns);
  const float* partial = scratch.get();  // [chunks, columns]
  column_sums_of(queue, "sum_rows", x, args.rows, args.columns, chunk_rows,
                 StorePartial{scratch.get()});
  if (chunks > kFewChunks) {
    cuda::add_partials(queue, "sum_rows", {partial, chunks, args.columns, 1, {out, nullptr}});
  } else {
    column_sums_of(queue, "sum_rows", partial, chunks, args.columns, chunks, Accumulate{out});
  }
}

template <class T, class Index>
struct SpreadMeanMap {
  static constexpr int kWidth = cuda::kPerVector<T>, kVectors = 2, kInputs = 1;
  const T* dy;
  T* dx;
  std::int64_t rows, columns;

  template <int n>
  __device__ void load(std::int64_t i, float (&v)[1][n]) const {
    const cuda::RowColumn row = cuda::row_and_column<Index>(i, columns);
    const std::int64_t b = cuda::row_and_column<Index>(row.row, rows).row;
    cuda::load_values(dy + b * columns + row.column, v[0]);
  }
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[1][n]) const {
    for (int k = 0; k < n; ++k) v[0][k] /= static_cast<float>(rows);
    cuda::store_values(dx + i, v[0]);
  }
};

// Copies rows of `columns` units. Unit is an unsigned type, as wide as sizes, strides and addresses
// allow.
template <class Unit, class Index>
__global__ void copy_rows_kernel(const Unit* x, std::int64_t x_stride, Unit* y,
                                 std::int64_t y_stride, std::int64_t columns, std::int64_t count) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kCopyThreads * kCopyUnits + threadIdx.x;
  Unit v[kCopyUnits] = {};
  std::int64_t to[kCopyUnits];
#pragma unroll
  for (int j = 0; j < kCopyUnits; ++j) {
    const std::int64_t i = first + j * kCopyThreads;
    const cuda::RowColumn at = cuda::row_and_column<Index>(i, columns);
    to[j] = at.row * y_stride + at.column;
    if (i < count) v[j] = x[at.row * x_stride + at.column];
  }
#pragma unroll
  for (int j = 0; j < kCopyUnits; ++j) {
    if (first + j * kCopyThreads < count) y[to[j]] = v[j];
  }
}

template <class Unit>
void copy_rows(CudaQueue& queue, const CopyRows& args, std::size_t element) {
  auto units = [element](std::int64_t n) {
    return n * static_cast<std::int64_t>(element) / static_cast<std::int64_t>(sizeof(Unit));
  };
  const std::int64_t columns = units(args.columns), count = args.rows * columns;
  cuda::for_index(count, [&](auto index) {
    launch(queue, {"copy_rows", {args.rows, args.columns}}, copy_rows_kernel<Unit, decltype(index)>,
           {blocks_for(count, kCopyThreads * kCopyUnits), kCopyThreads},
           static_cast<const Unit*>(args.x), units(args.x_stride), static_cast<Unit*>(args.y),
           units(args.y_stride), columns, count);
  });
}

struct Itself {
  static __device__ double of(float v) { return static_cast<double>(v); }
};
struct StoreScaled {
  float* y;
  double scale;
  bool accumulate;
  __device__ void operator()(double sum) const {
    const double before = accumulate ? static_cast<double>(*y) : 0.0;
    *y = static_cast<float>(before + scale * sum);
  }
};

}  // namespace

void run(CudaQueue& queue, const SumRows& args) {
  for_cuda_dtype("sum_rows", args.dtype, [&](auto zero) {
    if (args.rows <= 0 || args.columns <= 0) return;
    sum_rows<decltype(zero)>(queue, args);
  });
}

void run(CudaQueue& queue, const MeanRows& args) {
  for_cuda_dtype("mean_rows", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.batch * args.rows * args.columns == 0) return;
    column_sums_of(queue, "mean_rows", static_cast<const T*>(args.x), args.batch * args.rows,
                   args.columns, args.rows,
                   StoreMean<T>{static_cast<T*>(args.y), static_cast<float>(args.rows)});
  });
}

void run(CudaQueue& queue, const SpreadMean& args) {
  for_cuda_dtype("spread_mean", args.dtype, [&](auto zero) {
    const std::int64_t count = args.batch * args.rows * args.columns;
    cuda::for_index(count, [&](auto index) {
      using T = decltype(zero);
      cuda::launch_map(
          queue, "spread_mean",
          SpreadMeanMap<T, decltype(index)>{static_cast<const T*>(args.dy),
                                            static_cast<T*>(args.dx), args.rows, args.columns},
          count,
          cuda::is_vectorizable<T>(args.dy, args.columns) &&
              cuda::is_vectorizable<T>(args.dx, args.columns));
    });
  });
}

void run(CudaQueue& queue, const CopyRows& args) {
  if (args.rows <= 0 || args.columns <= 0) return;
  const std::size_t element = size_of(args.dtype);
  // The unit must divide every size, stride and address, so the lowest set bit of `bits` decides.
  const std::size_t bits =
      reinterpret_cast<std::uintptr_t>(args.x) | reinterpret_cast<std::uintptr_t>(args.y) |
      static_cast<std::size_t>(args.columns | args.x_stride | args.y_stride) * element;
  if (bits % 16 == 0) return copy_rows<uint4>(queue, args, element);
  if (bits % 8 == 0) return copy_rows<uint2>(queue, args, element);
  if (bits % 4 == 0) return copy_rows<std::uint32_t>(queue, args, element);
  if (bits % 2 == 0) return copy_rows<std::uint16_t>(queue, args, element);
  copy_rows<std::uint8_t>(queue, args, element);
}

void run(CudaQueue& queue, const Mean& args) {
  if (args.dtype != DType::kFloat32) {
    throw Error(cat("mean: ", name_of(args.dtype), " is not computed on CUDA devices; float32 is"));
  }
  cuda::launch_sum<Itself>(queue, "mean", static_cast<const float*>(args.x), args.count,
                           StoreScaled{static_cast<float*>(args.y), args.scale, args.accumulate});
}

}  // namespace dtn
