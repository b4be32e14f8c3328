// How the threads of a block share out a row of logits.
#pragma once

#include <cstdint>

#include "kernels/cuda/lanes.cuh"

namespace dtn {

inline constexpr int kMostRowWarps = 16;

template <class T, bool kWide>
using RowPiece = cuda::LaneValues<T, 8, kWide>;

inline unsigned threads_of_row(std::int64_t classes) {
  return classes <= 1024 ? 128 : classes <= 4096 ? 256 : kMostRowWarps * cuda::kWarpSize;
}

// Calls f(values, i, column): `values` are the logits of a piece of the row in this lane, of which
// those at i, i + 1, .. kRun lie in columns column, column + 1, ..
template <class Row, class T, class F>
__device__ __forceinline__ void for_each_in_row(const T* row, std::int64_t classes, F&& f) {
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const std::int64_t warp = threadIdx.x / cuda::kWarpSize, warps = blockDim.x / cuda::kWarpSize;
  for (std::int64_t first = warp * Row::kColumns; first < classes; first += warps * Row::kColumns) {
    const std::int64_t left = classes - first;
    const int columns = left < Row::kColumns ? static_cast<int>(left) : Row::kColumns;
    Row values;
    values.load(row + first, lane, columns);
#pragma unroll
    for (int i = 0; i < Row::kColumns / cuda::kWarpSize; i += Row::kRun) {
      const int c = Row::column(lane, i);
      if (c < columns) f(values, i, first + c);
    }
  }
}

}  // namespace dtn
