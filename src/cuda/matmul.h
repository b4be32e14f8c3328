// Matrix products on a CUDA device, by cuBLASLt: D = op(A) op(B) + C + bias, all row-major.
//
// A plan (descriptors and an algorithm) is made when a kind of product is first seen, and kept.
// Later products of that kind create nothing, so a graph can capture them. The algorithm is one
// that the library's heuristics propose: the fastest one measured on the same kind of card, or else
// the library's first (matmul_table.h). Nothing is timed while a program runs, so it computes the
// same bits in each run on the same kind of device with the same library.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn::cuda {

// One batched product. It is summed in float32 and rounded once, after C and bias have been added.
// Sizes are positive; pointers are aligned to their elements.
struct Matmul {
  DType dtype;    // of A and B: float32 or bfloat16
  DType d_dtype;  // of C, D and bias: dtype, or float32
  std::int64_t m, n, k;
  const void* a;               // [m, k], or [k, m] when transpose_a
  const void* b;               // [k, n], or [n, k] when transpose_b
  void* d;                     // [m, n]
  std::int64_t lda, ldb, ldd;  // row strides, in elements
  bool transpose_a = false;
  bool transpose_b = false;
  const void* c = nullptr;     // [m, n], laid out as D; may be d; null adds nothing
  const void* bias = nullptr;  // [n], added to every row; batch must be 1
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_d = 0;  // between products, in elements

  auto operator<=>(const Matmul&) const = default;  // NOLINT(modernize-use-nullptr): generated code
};

// Alignment that the bias of a fused product must have, in bytes. The library also plans for less,
// but some of its kernels then fault.
inline constexpr std::size_t kBiasAlignment = 16;

// Returns false, and does nothing, if the library has no algorithm for this product: it may lack
// one for a bias with very thin matrices. Throws Error naming the product if anything else fails.
bool try_multiply(CudaQueue&, const Matmul&);
// Like try_multiply(), over copies of A, B and D whose rows begin at multiples of 16 bytes, one
// product of the batch at a time. Takes no bias.
bool try_multiply_padded(CudaQueue&, const Matmul&);
// Uses the first of these two that works; throws Error if neither does. Takes no bias.
void multiply(CudaQueue&, const Matmul&);

// Number of plans made so far.
std::size_t matmul_plan_count();

}  // namespace dtn::cuda
