// Reductions; see reduce.h. If the last dimension is reduced, the threads of a block share the
// terms of one output. If it is kept, each warp of a block reduces rows of 32 outputs. Work that is
// too large for one block is split into chunks that depend only on the shape, and a second pass
// combines them.
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/primitive/reduce.h"

namespace dtn {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / cuda::kWarpSize;
constexpr std::int64_t kEnoughBlocks = 256, kMinTerms = 2048;

struct Sum {
  static __device__ __forceinline__ float nothing() { return 0; }
  static __device__ __forceinline__ float of(float sum, float x) { return sum + x; }
  static __device__ __forceinline__ float block(float v, float* scratch) {
    return cuda::block_sum_once(v, scratch);
  }
};
struct Max {
  static __device__ __forceinline__ float nothing() { return -__uint_as_float(0x7f800000u); }
  static __device__ __forceinline__ float of(float largest, float x) {
    return cuda::max_or_nan(largest, x);
  }
  static __device__ __forceinline__ float block(float v, float* scratch) {
    return cuda::warp_max(cuda::gather_warps(cuda::warp_max(v), scratch));
  }
};

// Some of the dimensions of x, with their strides.
struct Loops {
  Extents extents;
  Strides strides;
  std::int64_t count = 1;

  void add(std::int64_t size, std::int64_t step) {
    extents.size[extents.rank] = size;
    strides.step[extents.rank++] = step;
    count *= size;
  }
  __device__ __forceinline__ std::int64_t offset(std::int64_t index) const {
    std::int64_t at = 0;
    for (int d = extents.rank - 1; d > 0; --d) {
      at += index % extents.size[d] * strides.step[d];
      index /= extents.size[d];
    }
    return extents.rank > 0 ? at + index * strides.step[0] : 0;
  }
};

// One pass over x: the size of the last dimension, the other dimensions, and the chunks.
struct Pass {
  std::int64_t width;
  Loops kept, reduced;
  std::int64_t chunks = 1, per_chunk;
  float scale = 1;
};

// Blocks: [output, chunk].
template <class T, class U, class Op>
__global__ void __launch_bounds__(kThreads) reduce_rows_kernel(const T* x, U* y, Pass pass) {
  DTN_SHARED(float, scratch);
  const std::int64_t output = blockIdx.x / pass.chunks, chunk = blockIdx.x % pass.chunks;
  const T* from = x + pass.kept.offset(output);
  const std::int64_t begin = chunk * pass.per_chunk, terms = pass.reduced.count * pass.width;
  const std::int64_t end = begin + pass.per_chunk < terms ? begin + pass.per_chunk : terms;
  float result = Op::nothing();
  for (std::int64_t t = begin + threadIdx.x; t < end; t += blockDim.x) {
    const std::int64_t at =
        pass.reduced.extents.rank == 0 ? t : pass.reduced.offset(t / pass.width) + t % pass.width;
    result = Op::of(result, cuda::to_float(from[at]));
  }
  result = Op::block(result, scratch);
  if (threadIdx.x == 0) y[blockIdx.x] = cuda::from_float<U>(result * pass.scale);
}

// Blocks: [kept, chunk, 32 columns]; y [kept, chunk, width].
template <class T, class U, class Op>
__global__ void __launch_bounds__(kThreads)
    reduce_columns_kernel(const T* x, U* y, Pass pass, std::int64_t tiles) {
  DTN_SHARED(float, scratch);
  const std::int64_t part = blockIdx.x / tiles, chunk = part % pass.chunks;
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const std::int64_t column = blockIdx.x % tiles * cuda::kWarpSize + lane;
  const T* from = x + pass.kept.offset(part / pass.chunks) + column;
  const std::int64_t begin = chunk * pass.per_chunk;
  const std::int64_t end =
      begin + pass.per_chunk < pass.reduced.count ? begin + pass.per_chunk : pass.reduced.count;
  float result = Op::nothing();
  if (column < pass.width) {
    for (std::int64_t r = begin + warp; r < end; r += kWarps) {
      result = Op::of(result, cuda::to_float(from[pass.reduced.offset(r)]));
    }
  }
  scratch[threadIdx.x] = result;
  __syncthreads();
  if (warp > 0 || column >= pass.width) return;
  for (int w = 1; w < kWarps; ++w) result = Op::of(result, scratch[w * cuda::kWarpSize + lane]);
  y[part * pass.width + column] = cuda::from_float<U>(result * pass.scale);
}

template <class T, class U, class Op>
void launch_pass(CudaQueue& queue, bool rows, const T* x, U* y, const Pass& pass) {
  if (rows) {
    const bool wide = pass.per_chunk > 4 * cuda::kWarpSize;
    launch(queue, {"reduce_rows", {pass.kept.count, pass.reduced.count, pass.width}},
           reduce_rows_kernel<T, U, Op>,
           {blocks_for(pass.kept.count * pass.chunks, 1), wide ? kThreads : cuda::kWarpSize,
            kWarps * sizeof(float)},
           x, y, pass);
  } else {
    const std::int64_t tiles = (pass.width + cuda::kWarpSize - 1) / cuda::kWarpSize;
    launch(
        queue, {"reduce_columns", {pass.kept.count, pass.reduced.count, pass.width}},
        reduce_columns_kernel<T, U, Op>,
        {blocks_for(pass.kept.count * pass.chunks * tiles, 1), kThreads, kThreads * sizeof(float)},
        x, y, pass, tiles);
  }
}

template <class T, class U, class Op>
void reduce(CudaQueue& queue, const Reduce& args) {
  const int last = args.extents.rank - 1;
  const bool rows = args.reduced[last];
  Pass pass;
  pass.width = args.extents.size[last];
  std::int64_t steps[kMaxDims], step = pass.width;
  for (int d = last - 1; d >= 0; --d) {
    steps[d] = step;
    step *= args.extents.size[d];
  }
  for (int d = 0; d < last; ++d) {
    (args.reduced[d] ? pass.reduced : pass.kept).add(args.extents.size[d], steps[d]);
  }
  const float scale = std::is_same_v<Op, Sum> ? static_cast<float>(args.scale) : 1.0f;
  const std::int64_t terms = pass.reduced.count * (rows ? pass.width : 1);
  const std::int64_t blocks =
      pass.kept.count * (rows ? 1 : (pass.width + cuda::kWarpSize - 1) / cuda::kWarpSize);
  if (blocks < kEnoughBlocks && terms > kMinTerms) {
    const std::int64_t wanted = (kEnoughBlocks + blocks - 1) / blocks;
    const std::int64_t most = (terms + kMinTerms - 1) / kMinTerms;
    pass.chunks = wanted < most ? wanted : most;
  }
  pass.per_chunk = (terms + pass.chunks - 1) / pass.chunks;
  pass.chunks = (terms + pass.per_chunk - 1) / pass.per_chunk;
  const T* x = static_cast<const T*>(args.x);
  if (pass.chunks == 1) {
    pass.scale = scale;
    return launch_pass<T, U, Op>(queue, rows, x, static_cast<U*>(args.y), pass);
  }
  const std::int64_t width = rows ? 1 : pass.width;
  auto partials = queue.scratch<float>(pass.kept.count * pass.chunks * width);
  launch_pass<T, float, Op>(queue, rows, x, partials.get(), pass);
  Pass sum;
  sum.width = rows ? pass.chunks : width;
  sum.kept.add(pass.kept.count, pass.chunks * width);
  if (!rows) sum.reduced.add(pass.chunks, width);
  sum.per_chunk = pass.chunks;
  sum.scale = scale;
  launch_pass<float, U, Op>(queue, rows, static_cast<const float*>(partials.get()),
                            static_cast<U*>(args.y), sum);
}

template <class T, class U>
void reduce(CudaQueue& queue, const Reduce& args) {
  args.kind == Reduction::kSum ? reduce<T, U, Sum>(queue, args) : reduce<T, U, Max>(queue, args);
}

}  // namespace

void run(CudaQueue& queue, const Reduce& args) {
  for_cuda_dtype("reduce", args.dtype, [&](auto zero) {
    using T = decltype(zero);
    args.y_dtype == args.dtype ? reduce<T, T>(queue, args) : reduce<T, float>(queue, args);
  });
}

}  // namespace dtn
