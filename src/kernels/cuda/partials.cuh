// Second half of a sum over rows. The first kernel writes one row of partial sums per block; these
// are added to the totals in an order that depends only on the shape.
#pragma once

#include "kernels/cuda/reduce.cuh"

namespace dtn::cuda {

// Rows of partial sums for several outputs.
struct PartialSums {
  const float* sums;  // [chunks, outputs, columns]
  std::int64_t chunks, columns;
  int outputs;
};

// A block handles kColumns columns. Its thread (group, column) adds every kGroups-th chunk, which
// keeps the loads of many chunks in flight at once; then one warp per column adds the groups. Grid:
// [columns / kColumns, outputs]. There are few sums, so the longest chain of loads determines the
// time.
template <int kColumns>
struct AddPartials {
  static constexpr int kThreads = 1024;
  static constexpr int kGroups = kThreads / kColumns;
  static constexpr int kStride = kColumns + 1;  // avoids bank conflicts within a column
  static_assert(kGroups == 2 * kWarpSize);
};

template <int kColumns, class Finish>
__global__ void __launch_bounds__(AddPartials<kColumns>::kThreads)
    add_partials_kernel(PartialSums p, Finish finish) {
  constexpr int kGroups = AddPartials<kColumns>::kGroups, kStride = AddPartials<kColumns>::kStride;
  DTN_SHARED(float, shared);
  const int output = static_cast<int>(blockIdx.y);
  if (!finish.wants(output)) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread / kColumns, slot = thread % kColumns;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kColumns;
  const std::int64_t stride = p.outputs * p.columns;
  const float* sums = p.sums + blockIdx.y * p.columns + first + slot;
  float sum = 0;
  if (first + slot < p.columns) {
#pragma unroll 8
    for (std::int64_t k = group; k < p.chunks; k += kGroups) sum += sums[k * stride];
  }
  shared[group * kStride + slot] = sum;
  __syncthreads();
  const int warp = thread / kWarpSize, lane = thread % kWarpSize;
  if (warp >= kColumns) return;
  sum = warp_sum(shared[lane * kStride + warp] + shared[(lane + kWarpSize) * kStride + warp]);
  if (lane == 0 && first + warp < p.columns) finish(output, first + warp, sum);
}

// Calls finish(output, column, total) for each output with finish.wants(output); one thread makes
// each call.
template <class Finish>
void add_partials(CudaQueue& queue, const char* name, const PartialSums& p, const Finish& finish) {
  constexpr int kColumns = 16;  // 64 bytes of a row of sums at a time
  using Shape = AddPartials<kColumns>;
  const dim3 grid(blocks_for(p.columns, kColumns).x, static_cast<unsigned>(p.outputs));
  launch(queue, {name, {p.chunks, p.outputs, p.columns}}, add_partials_kernel<kColumns, Finish>,
         {grid, Shape::kThreads, Shape::kGroups * Shape::kStride * sizeof(float)}, p, finish);
}

// Up to three outputs, added to the totals; a null total is skipped.
struct Partials {
  const float* sums;  // [chunks, outputs, columns]
  std::int64_t chunks, columns;
  int outputs;
  float* totals[3];  // [columns] each, +=
};

struct AddToTotals {
  float *first, *second, *third;
  __device__ __forceinline__ float* of(int output) const {
    return output == 0 ? first : output == 1 ? second : third;
  }
  __device__ __forceinline__ bool wants(int output) const { return of(output) != nullptr; }
  __device__ __forceinline__ void operator()(int output, std::int64_t column, float sum) const {
    of(output)[column] += sum;
  }
};

inline void add_partials(CudaQueue& queue, const char* name, const Partials& p) {
  add_partials(queue, name, PartialSums{p.sums, p.chunks, p.columns, p.outputs},
               AddToTotals{p.totals[0], p.totals[1], p.totals[2]});
}

// Rows per chunk of a kernel: at least `least` rows, a multiple of `step`, and at most about a
// thousand chunks.
inline std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t least, std::int64_t step) {
  std::int64_t n = (rows + 1023) / 1024;
  if (n < least) n = least;
  return (n + step - 1) / step * step;
}

}  // namespace dtn::cuda
