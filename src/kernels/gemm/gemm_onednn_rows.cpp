#include "kernels/gemm/gemm_onednn_rows.h"

#include <algorithm>

#include "kernels/gemm/gemm_onednn.h"
#include "kernels/gemm/tile_ops.h"

namespace dtn::onednn {
namespace {

constexpr std::int64_t kRowBlock = 12;

// Copies a matrix tile into scratch memory.
void* copied(CpuQueue& queue, Scratch::Scope& scope, DType dtype, const void* x, std::int64_t ld,
             std::int64_t rows, std::int64_t cols, std::int64_t stride, std::int64_t room_rows) {
  void* to = scope.take<char>(room_rows * stride * static_cast<std::int64_t>(size_of(dtype)));
  run(queue, ConvertTile{dtype, dtype, rows, cols, x, ld, to, stride});
  return to;
}

// Pads the last block with rows of zeros.
void multiply_row_blocks(CpuQueue& queue, const GemmTile& t) {
  if (t.transpose_a || t.m % kRowBlock == 0) return multiply(queue, t);
  Scratch::Scope scope(queue.scratch());
  GemmTile whole = t;
  whole.m = (t.m + kRowBlock - 1) / kRowBlock * kRowBlock;
  auto filled_up = [&](DType dtype, const void* x, std::int64_t ld, std::int64_t cols) {
    void* to = copied(queue, scope, dtype, x, ld, t.m, cols, cols, whole.m);
    const auto row = cols * static_cast<std::int64_t>(size_of(dtype));
    std::fill_n(static_cast<char*>(to) + t.m * row, (whole.m - t.m) * row, '\0');
    return to;
  };
  whole.a = filled_up(t.dtype, t.a, t.lda, t.k);
  whole.lda = t.k;
  whole.c = t.accumulate
                ? filled_up(t.c_dtype, t.c, t.ldc, t.n)
                : scope.take<char>(whole.m * t.n * static_cast<std::int64_t>(size_of(t.c_dtype)));
  whole.ldc = t.n;
  multiply(queue, whole);
  run(queue, ConvertTile{t.c_dtype, t.c_dtype, t.m, t.n, whole.c, t.n, t.c, t.ldc});
}

}  // namespace

std::int64_t row_block(DType dtype) { return has_own_layout(dtype) ? 1 : kRowBlock; }

void multiply_rows(CpuQueue& queue, const GemmTile& t) {
  if (has_own_layout(t.dtype)) return multiply(queue, t);
  constexpr std::int64_t kWorthCopying = 32;  // minimum number of uses of an element
  Scratch::Scope scope(queue.scratch());
  GemmTile spread = t;
  const bool down_b = !t.packed_b && !t.transpose_b && crowded(t.dtype, t.ldb);
  if (down_b && t.m >= kWorthCopying) {
    const std::int64_t stride = spread_stride(t.dtype, t.n);
    spread.b = copied(queue, scope, t.dtype, t.b, t.ldb, t.k, t.n, stride, t.k);
    spread.ldb = stride;
  }
  multiply_row_blocks(queue, spread);
}

}  // namespace dtn::onednn
