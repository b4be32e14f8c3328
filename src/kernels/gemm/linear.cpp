#include "kernels/gemm/linear.h"

#include "dtn/core/check.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/linear_epilogue.h"
#include "kernels/gemm/tile_ops.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

// a[m, k] op(b)[k, n] -> c[m, n], all dense.
Gemm product(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, const void* a,
             const void* b, bool transpose_b, void* c) {
  Gemm g{dtype, dtype, m, n, k, a, b, c, k, transpose_b ? k : n, n};
  g.transpose_b = transpose_b;
  return g;
}

}  // namespace

void run(CpuQueue& queue, const LinearForward& l) {
  DTN_CHECK(l.rows_per_scale > 0, "rows_per_scale is ", l.rows_per_scale, ", but must be positive");
  DTN_CHECK(!l.gelu || (!l.residual && !l.row_scale),
            "a linear layer cannot have both gelu and a residual");
  DTN_CHECK(l.gelu || !l.preactivation, "a linear layer stores the preactivation only with gelu");
  DTN_CHECK(l.in > 0, "a linear layer with no inputs");
  Gemm g = product(l.dtype, l.rows, l.out, l.in, l.x, l.weight, true, l.y);
  if (!l.bias && !l.gelu && !l.residual && !l.row_scale) return run(queue, g);

  DType accumulator = accumulator_of(l.dtype);
  run_with_epilogue(queue, g, [&](CpuQueue& q, const ProductTile& tile) {
    std::int64_t first = tile.row * l.out + tile.col;
    run(q, LinearEpilogue{l.dtype, tile.rows, tile.cols, tile.values, tile.ld,
                          at_element(l.bias, accumulator, tile.col), l.gelu, l.gelu_tanh,
                          at_element(l.preactivation, l.dtype, first),
                          at_element(l.residual, l.dtype, first), l.row_scale, tile.row,
                          l.rows_per_scale, at_element(l.y, l.dtype, first), l.out});
  });
}

void run(CpuQueue& queue, const LinearBackwardInput& l) {
  DTN_CHECK(l.out > 0, "a linear layer with no outputs");
  DTN_CHECK(l.preactivation || !l.activation,
            "the activation is recomputed from the preactivation, which is missing");
  DTN_CHECK(l.preactivation || !l.dbias, "dbias needs the preactivation");
  Gemm g = product(l.dtype, l.rows, l.in, l.out, l.dy, l.weight, false, l.dx);
  if (!l.preactivation) return run(queue, g);

  run_with_epilogue(queue, g, [&](CpuQueue& q, const ProductTile& tile) {
    std::int64_t first = tile.row * l.in + tile.col;
    run(q, LinearGeluGradient{l.dtype, tile.rows, tile.cols, tile.values, tile.ld, l.gelu_tanh,
                              at_element(l.preactivation, l.dtype, first),
                              at_element(l.activation, l.dtype, first),
                              at_element(l.dx, l.dtype, first), l.in});
  });
  if (l.dbias) run(queue, SumRows{l.dtype, l.rows, l.in, l.dx, l.dbias});
}

void run(CpuQueue& queue, const LinearBackwardWeight& l) {
  DType accumulator = accumulator_of(l.dtype);
  if (!l.dweight) {
    if (l.dbias) run(queue, ColumnSums{l.dtype, l.rows, l.out, l.dy, l.out, l.dbias});
    return;
  }
  Gemm g{l.dtype, accumulator, l.out, l.in, l.rows, l.dy, l.x, l.dweight, l.out, l.in, l.in};
  g.transpose_a = true;
  g.accumulate = true;
  g.a_sums = l.dbias;
  run(queue, g);
}

}  // namespace dtn
