// Small serial kernels on rows of a matrix, used around the tiles of a product.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// Returns the address of element `n` of an array; null if the array is null.
inline const void* at_element(const void* p, DType t, std::int64_t n) {
  return p ? static_cast<const char*>(p) + n * static_cast<std::int64_t>(size_of(t)) : nullptr;
}
inline void* at_element(void* p, DType t, std::int64_t n) {
  return p ? static_cast<char*>(p) + n * static_cast<std::int64_t>(size_of(t)) : nullptr;
}

// dst = src, converted between bfloat16 and float32; with `accumulate`, dst += src.
struct ConvertTile {
  DType from, to;
  std::int64_t rows, cols;
  const void* src;
  std::int64_t ld_src;
  void* dst;
  std::int64_t ld_dst;
  bool accumulate = false;
};
void run(CpuQueue&, const ConvertTile&);

// dst[c, r] = src[r, c], converted to float32.
struct TransposeTile {
  DType from;  // float32 or bfloat16
  std::int64_t rows, cols;
  const void* src;
  std::int64_t ld_src;
  float* dst;
  std::int64_t ld_dst;
};
void run(CpuQueue&, const TransposeTile&);

// sums[c] += sum over r of x[r, c], in row order; sums have the accumulator type.
struct ColumnSums {
  DType dtype;
  std::int64_t rows, cols;
  const void* x;
  std::int64_t ld;
  void* sums;
};
void run(CpuQueue&, const ColumnSums&);

// c += partial 0 + partial 1 + ..., in that order.
struct SumPartials {
  DType dtype;  // float32 or float64
  std::int64_t parts, rows, cols;
  const void* partials;
  std::int64_t part_stride, ld;  // in elements
  void* c;
  std::int64_t ldc;
};
void run(CpuQueue&, const SumPartials&);

}  // namespace dtn
