// What gemm.cpp asks of a matrix library: one tile of a product, computed by the calling thread
// alone. Private to the gemm files.
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
  // The backend's own form of op(B), prepared once and shared by the tiles of a column; what it
  // points to is the backend's secret.
  const void* packed_b = nullptr;
};

}  // namespace dtn
