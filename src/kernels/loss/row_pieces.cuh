// Distribution of a row of logits over the threads of a block.
#pragma once

#include <cstdint>

#include "kernels/cuda/lanes.cuh"
#include "kernels/loss/cross_entropy.h"

namespace dtn {

inline constexpr int kMaxRowWarps = 16;

template <class T, bool kWide>
using RowPiece = cuda::LaneValues<T, 8, kWide>;

inline unsigned threads_of_row(std::int64_t classes) {
  return classes <= 1024 ? 128 : classes <= 4096 ? 256 : kMaxRowWarps * cuda::kWarpSize;
}

// Returns true if rows of logits and soft targets can be read 16 bytes at a time.
template <class T, class Arguments>
bool has_wide_rows(const Arguments& args, const ClassTargets& against) {
  return cuda::is_vectorizable<T>(args.logits, args.classes) &&
         cuda::is_vectorizable<float>(against.targets, args.classes);
}

// Calls f(values, i, column) for the runs of this lane. `values` are the lane's logits of a piece
// of the row. The kRun values from index i on lie in the columns from `column` on.
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
