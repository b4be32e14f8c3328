// Matrix products for which cuBLASLt has no algorithm, for example with odd row strides or with
// bfloat16 rows that begin at 2 bytes. They run over copies with row starts that the library
// supports.
#include "cuda/matmul.h"
#include "dtn/core/check.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::cuda {
namespace {

constexpr std::int64_t kRowBytes = 16;  // alignment of the rows of copies

// Copy of a matrix with aligned rows of `columns` elements.
struct Padded {
  DType dtype;
  std::int64_t rows, columns;
  std::int64_t ld;
  DeviceScratch<std::byte> memory;

  Padded(CudaQueue& queue, DType type, std::int64_t row_count, std::int64_t column_count)
      : dtype(type),
        rows(row_count),
        columns(column_count),
        ld(padded(column_count, type)),
        memory(queue.scratch<std::byte>(rows * ld * static_cast<std::int64_t>(size_of(type)))) {}

  static std::int64_t padded(std::int64_t columns, DType type) {
    const std::int64_t unit = kRowBytes / static_cast<std::int64_t>(size_of(type));
    return (columns + unit - 1) / unit * unit;
  }
  void copy_from(CudaQueue& queue, const void* from, std::int64_t from_ld) const {
    run(queue, CopyRows{dtype, rows, columns, from, from_ld, memory.get(), ld});
  }
  void copy_to(CudaQueue& queue, void* to, std::int64_t to_ld) const {
    run(queue, CopyRows{dtype, rows, columns, memory.get(), ld, to, to_ld});
  }
};

const std::byte* at(const void* p, std::int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(p) + elements * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace

bool try_multiply_padded(CudaQueue& queue, const Matmul& p) {
  DTN_CHECK(!p.bias, "a product of padded copies cannot have a bias");
  const Padded a(queue, p.dtype, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k);
  const Padded b(queue, p.dtype, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n);
  const Padded d(queue, p.d_dtype, p.m, p.n);
  for (std::int64_t i = 0; i < p.batch; ++i) {
    a.copy_from(queue, at(p.a, i * p.stride_a, p.dtype), p.lda);
    b.copy_from(queue, at(p.b, i * p.stride_b, p.dtype), p.ldb);
    if (p.c) d.copy_from(queue, at(p.c, i * p.stride_d, p.d_dtype), p.ldd);
    Matmul copy{p.dtype,        p.d_dtype,      p.m,  p.n,  p.k,  a.memory.get(),
                b.memory.get(), d.memory.get(), a.ld, b.ld, d.ld, p.transpose_a,
                p.transpose_b};
    if (p.c) copy.c = d.memory.get();
    if (!try_multiply(queue, copy)) return false;
    d.copy_to(queue, const_cast<std::byte*>(at(p.d, i * p.stride_d, p.d_dtype)), p.ldd);
  }
  return true;
}

}  // namespace dtn::cuda
