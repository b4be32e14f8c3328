// kernels/gemm/gemm.h on a CUDA device: one cuBLASLt product, see matmul.h.
#include "kernels/gemm/gemm.h"

#include "core/cuda_device.h"
#include "cuda/matmul.h"
#include "dtn/core/check.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

void check_gemm(const Gemm& g) {
  DTN_CHECK(g.m >= 0 && g.n >= 0 && g.k >= 0 && g.batch >= 0, "negative size in a product of [",
            g.m, ", ", g.k, "] and [", g.k, ", ", g.n, "]");
  DTN_CHECK(g.lda >= (g.transpose_a ? g.m : g.k) && g.ldb >= (g.transpose_b ? g.k : g.n),
            "a row stride is shorter than the row: lda ", g.lda, ", ldb ", g.ldb);
  DTN_CHECK(g.ldc >= g.n, "ldc ", g.ldc, " is shorter than a row of ", g.n);
  DTN_CHECK(!g.a_sums || (g.transpose_a && g.batch == 1), "a_sums needs transpose_a and batch 1");
}

void clear_c(const Gemm& g) {
  auto* c = static_cast<std::byte*>(g.c);
  auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * size_of(g.c_dtype);
  };
  bool dense = g.ldc == g.n;
  for (std::int64_t b = 0; b < g.batch; ++b) {
    for (std::int64_t i = 0; i < (dense ? 1 : g.m); ++i) {
      cuda::fill_with_zero(c + bytes(b * g.stride_c + i * g.ldc), bytes(dense ? g.m * g.n : g.n));
    }
  }
}

// a_sums[m] += sum over k of A[k, m].
//
// cuBLASLt could compute the sums together with a weight gradient (CUBLASLT_EPILOGUE_BGRADB). This
// backend does not use it, because it overwrites the sums instead of adding to them. Besides, a
// weight gradient has few output tiles (16 of 128 x 128 for 432 x 432, on 132 multiprocessors), so
// k must be split, and that epilogue does not support a split k. Reading A once more costs k m
// elements of bandwidth.
void add_column_sums(CudaQueue& queue, const Gemm& g) {
  if (g.lda == g.m) return run(queue, SumRows{g.dtype, g.k, g.m, g.a, g.a_sums});
  auto dense = queue.scratch<std::byte>(g.k * g.m * static_cast<std::int64_t>(size_of(g.dtype)));
  run(queue, CopyRows{g.dtype, g.k, g.m, g.a, g.lda, dense.get(), g.m});
  run(queue, SumRows{g.dtype, g.k, g.m, dense.get(), g.a_sums});
}

}  // namespace

void run(CudaQueue& queue, const Gemm& g) {
  check_gemm(g);
  if (g.m == 0 || g.n == 0 || g.batch == 0) return;
  if (g.k == 0) {
    if (!g.accumulate) clear_c(g);
    return;
  }
  cuda::Matmul p{g.dtype, g.c_dtype, g.m, g.n, g.k, g.a, g.b, g.c, g.lda, g.ldb, g.ldc};
  p.transpose_a = g.transpose_a;
  p.transpose_b = g.transpose_b;
  if (g.accumulate) p.c = g.c;
  p.batch = g.batch;
  p.stride_a = g.stride_a;
  p.stride_b = g.stride_b;
  p.stride_d = g.stride_c;
  cuda::multiply(queue, p);
  if (g.a_sums) add_column_sums(queue, g);
}

}  // namespace dtn
