// Matrix products, C = op(A) op(B), row-major, on oneDNN or Eigen.
//
// Deterministic: M, N and K are cut into tiles fixed by shape alone, each tile is computed by one
// thread, and partial sums over K are added in a fixed order, so that the bits of the result do not
// depend on the number of threads.
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
  // With transpose_a and batch 1: a_sums[m] += sum over k of op(A)[m, k], in the accumulator type;
  // the bias gradient that goes with a weight gradient.
  void* a_sums = nullptr;

  double multiply_adds() const {
    return static_cast<double>(batch * m) * static_cast<double>(n * k);
  }
};
// Throws Error when a type, stride or size is impossible. k = 0 gives C = 0 (or leaves C).
void run(CpuQueue&, const Gemm&);
void run(CudaQueue&, const Gemm&);

// A finished tile of the product, still in this thread's cache.
struct ProductTile {
  std::int64_t row, col;  // of its first element in C
  std::int64_t rows, cols;
  const void* values;  // [rows, cols], accumulator type
  std::int64_t ld;
};
// As run, for batch 1 and without accumulate, but hands each tile to `epilogue` instead of storing
// it in C (c, ldc and c_dtype are not used). The epilogue runs on the thread of the tile.
void run_with_epilogue(CpuQueue&, const Gemm&,
                       const std::function<void(CpuQueue&, const ProductTile&)>& epilogue);

// Writes a part of a factor, `rows` from `row` on and `cols` from `col` on, to `to` [rows, cols].
using GatherPart = std::function<void(std::int64_t row, std::int64_t rows, std::int64_t col,
                                      std::int64_t cols, void* to)>;
// As run, for batch 1, with a factor that lies nowhere as a matrix: the parts that a tile needs are
// made where it is computed, on its thread, some of them several times. Either may be null: that
// factor is in memory. A gathered factor is not transposed, and its pointer is not used.
void run_gathered(CpuQueue&, const Gemm&, const GatherPart* a, const GatherPart* b,
                  const std::function<void(CpuQueue&, const ProductTile&)>* epilogue = nullptr);

// Which library computes the products of this type on this machine: "onednn" or "eigen".
const char* gemm_backend(DType dtype);
// What products are computed with, for people: for instance "oneDNN 2.7.1" or "Eigen 3.4.0".
std::string gemm_library();
// Forces Eigen (for tests of the fallback); returns the previous setting.
bool force_eigen_gemm(bool on);

}  // namespace dtn
