// Matrix products on a CUDA device, by cuBLASLt: D = op(A) op(B) + C + bias, all row-major.
//
// A plan (descriptors and an algorithm) is made for each kind of product when it is first seen, and
// kept: what follows creates nothing and may be captured into a graph. The algorithm is one that the
// library's heuristics offer: the one that was the fastest when products were measured on such a
// card, or else the library's first (matmul_table.h). Nothing is timed while a program runs, so that
// it computes the same bits each time it is run on the same kind of device with the same library.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn::cuda {

// Products are summed in float32 and rounded once, after C and bias have been added. Sizes are
// positive; pointers are aligned to their elements.
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
  const void* c = nullptr;     // [m, n], laid out as D; may be d; null: nothing is added
  const void* bias = nullptr;  // [n], added to every row; batch must be 1
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_d = 0;  // between products, in elements
};

// Where the bias of a fused product must begin: the library plans for less, but some of its kernels
// then fault.
inline constexpr std::size_t kBiasAlignment = 16;

// False, with nothing done, when the library has no algorithm for this product: it may lack one for
// a bias with very thin matrices. Throws Error naming the product when anything else is wrong.
bool try_multiply(CudaQueue&, const Matmul&);
// The same over copies of the factors, and of D, whose rows begin at multiples of 16 bytes, one
// product of the batch at a time; takes no bias.
bool try_multiply_padded(CudaQueue&, const Matmul&);
// The first of these two that works; that neither does is an error. Takes no bias.
void multiply(CudaQueue&, const Matmul&);

// Plans made so far.
std::size_t matmul_plan_count();

}  // namespace dtn::cuda
