// Interface between gemm.cpp and a matrix library: one tile of a product, computed on the calling
// thread only. Private to the gemm files.
#pragma once

#include <cstdint>

#include "dtn/core/dtype.h"

namespace dtn {

// C[m, n] (+)= op(A)[m, k] op(B)[k, n]. C is dtype or the accumulator type.
struct GemmTile {
  DType dtype, c_dtype;
  std::int64_t m, n, k;
  const void* a;
  const void* b;  // not used when packed_b is set
  void* c;
  std::int64_t lda, ldb, ldc;
  bool transpose_a, transpose_b, accumulate;
  // op(B) in the backend's private form, prepared once and shared by the tiles of a column.
  const void* packed_b = nullptr;
};

// Reads down the columns use only a few cache sets if rows are a multiple of this many bytes apart;
// the cache then holds little else.
constexpr std::int64_t kCrowdedBytes = 512, kCacheLine = 64;

constexpr bool crowded(DType dtype, std::int64_t stride) {
  return stride * static_cast<std::int64_t>(size_of(dtype)) % kCrowdedBytes == 0;
}

// Returns the smallest stride for rows of `cols` that is an odd number of cache lines. It spreads
// the rows over the cache sets.
constexpr std::int64_t spread_stride(DType dtype, std::int64_t cols) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  return ((cols * size + kCacheLine - 1) / kCacheLine | 1) * kCacheLine / size;
}

// Returns a stride for rows of `cols` that is not crowded.
constexpr std::int64_t uncrowded(DType dtype, std::int64_t cols) {
  return crowded(dtype, cols) ? spread_stride(dtype, cols) : cols;
}

}  // namespace dtn
