// Distribution of a row of logits and its targets over the threads of a block.
#pragma once

#include <cstdint>

#include "kernels/cuda/lanes.cuh"
#include "kernels/loss/class_targets.h"

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

// Targets of one row, by column. `Targets` is ClassTargets or a class derived from it, which may
// binarize them. kDense: soft targets.
template <bool kDense, class Targets>
struct ColumnTargets {
  static constexpr bool kBinarizes = requires(const Targets& t) { t.binarize; };
  const float* dense;
  bool binarize = false;
  float threshold = 0;
  RowTargets<float> of_labels;

  __device__ __forceinline__ ColumnTargets(const Targets& against, std::int64_t row,
                                           std::int64_t classes)
      : dense(static_cast<const float*>(against.targets) + (kDense ? row * classes : 0)),
        of_labels{} {
    if constexpr (kBinarizes) {
      binarize = against.binarize;
      threshold = static_cast<float>(against.threshold);
    }
    if constexpr (!kDense) of_labels = row_targets<float>(against, row, classes);
  }
  __device__ __forceinline__ bool valid() const { return kDense || of_labels.valid; }

  template <class Row>
  __device__ __forceinline__ void load(std::int64_t column, float (&t)[Row::kRun]) const {
    if constexpr (kDense) {
      Row::load_float_run(dense + column, t);
      if constexpr (kBinarizes) {
#pragma unroll
        for (int k = 0; k < Row::kRun; ++k) {
          if (binarize) t[k] = t[k] > threshold ? 1.0f : 0.0f;
        }
      }
    } else {
#pragma unroll
      for (int k = 0; k < Row::kRun; ++k) {
        t[k] = column + k == of_labels.partner ? of_labels.at_partner : of_labels.elsewhere;
        if (column + k == of_labels.own) t[k] = of_labels.at_own;
      }
    }
  }
};

// Calls f(wide, dense) with both as constants.
template <class F>
void with_row_constants(bool wide, bool dense, F&& f) {
  auto with = [&](auto is_wide) {
    dense ? f(is_wide, std::true_type{}) : f(is_wide, std::false_type{});
  };
  wide ? with(std::true_type{}) : with(std::false_type{});
}

}  // namespace dtn
