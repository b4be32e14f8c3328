// Matrix products, C = op(A) op(B), row-major, on oneDNN or Eigen.
//
// Deterministic: the shape alone fixes the tiles of M, N and K, one thread computes each tile, and
// partial sums over K are added in a fixed order. The bits of the result therefore do not depend on
// the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// C[m, n] (+)= op(A)[m, k] op(B)[k, n] for each of `batch` independent products.
struct Gemm {
  DType dtype;    // of A and B: float32, bfloat16, float64
  DType c_dtype;  // of C: dtype, or float32 for bfloat16 inputs
  std::int64_t m, n, k;
  const void* a;               // [m, k], or [k, m] when transpose_a
  const void* b;               // [k, n], or [n, k] when transpose_b
  void* c;                     // [m, n]
  std::int64_t lda, ldb, ldc;  // row strides, in elements
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  // C += instead of C =
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // between products, in elements
  // With transpose_a and batch 1: a_sums[m] += sum over k of op(A)[m, k], in the accumulator type.
  // This is the bias gradient that belongs to a weight gradient.
  void* a_sums = nullptr;

  double multiply_adds() const {
    return static_cast<double>(batch * m) * static_cast<double>(n * k);
  }
};
// Throws Error if a type, stride or size is invalid. k = 0 gives C = 0 (or leaves C).
void run(CpuQueue&, const Gemm&);
void run(CudaQueue&, const Gemm&);

// A finished tile of the product, still in this thread's cache.
struct ProductTile {
  std::int64_t row, col;  // of the tile's first element in C
  std::int64_t rows, cols;
  const void* values;  // [rows, cols], accumulator type
  std::int64_t ld;
};
using TileEpilogue = std::function<void(CpuQueue&, const ProductTile&)>;
// Like run(), for batch 1 and without accumulate, but passes each tile to `epilogue` instead of
// storing it in C (c, ldc and c_dtype are not used). The epilogue runs on the thread of the tile.
void run_with_epilogue(CpuQueue&, const Gemm&, const TileEpilogue& epilogue);

// Writes part of a factor, `rows` from `row` on and `cols` from `col` on, to `to` [rows, cols].
using GatherPart = std::function<void(std::int64_t row, std::int64_t rows, std::int64_t col,
                                      std::int64_t cols, void* to)>;
// Like run(), for batch 1, with a factor that is not stored as a matrix. The thread of a tile
// creates the parts that the tile needs; some parts are created several times. A null `a` or `b`
// means that this factor is in memory. A gathered factor is not transposed, and its pointer is not
// used.
void run_gathered(CpuQueue&, const Gemm&, const GatherPart* a, const GatherPart* b,
                  const TileEpilogue* epilogue = nullptr);

// Returns the library for products of this type on this machine: "onednn" or "eigen".
const char* gemm_backend(DType dtype);
// Returns the name of the library for people: for instance "oneDNN 2.7.1" or "Eigen 3.4.0".
std::string gemm_library();
// Forces Eigen (for tests of the fallback); returns the previous setting.
bool force_eigen_gemm(bool on);

}  // namespace dtn
