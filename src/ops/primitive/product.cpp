// Matrix products; see dtn/ops/primitive.h.
#include "dtn/ops/primitive.h"
#include "kernels/gemm/gemm.h"
#include "ops/primitive/tensors.h"

namespace dtn::primitive {
namespace {

Shape leading(const Shape& shape) {
  return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 2)));
}

Shape with_matrix(const Shape& lead, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> dims(lead.dims().begin(), lead.dims().end());
  dims.push_back(rows);
  dims.push_back(columns);
  return Shape(std::span<const std::int64_t>(dims));
}

// Returns all rows of all matrices as one matrix.
Tensor as_rows(const Tensor& x) { return x.reshape({x.numel() / x.dim(-1), x.dim(-1)}); }

// Broadcasts x to the leading dimensions `lead`, unless x is a single matrix.
Tensor spread(const Tensor& x, const Shape& lead) {
  if (leading(x.shape()).numel() == 1) return x;
  return broadcast(x, with_matrix(lead, x.dim(-2), x.dim(-1)));
}

// op(A) op(B) over the last two dimensions, the leading ones broadcast.
Tensor product(const Tensor& a, bool ta, const Tensor& b, bool tb) {
  const Shape lead = broadcast_shape(leading(a.shape()), leading(b.shape()));
  const bool one_b = leading(b.shape()).numel() == 1;
  Gemm g{};
  g.dtype = g.c_dtype = a.dtype();
  g.m = a.dim(ta ? -1 : -2);
  g.k = a.dim(ta ? -2 : -1);
  g.n = b.dim(tb ? -2 : -1);
  Tensor c = Tensor::empty(with_matrix(lead, g.m, g.n), a.dtype(), a.device());
  Tensor left = a, right = spread(b, lead);
  g.batch = lead.numel();
  if (one_b && !ta && g.batch > 0) {  // all rows of all matrices in one product
    g.m *= leading(a.shape()).numel();
    g.batch = 1;
  } else {
    left = spread(a, lead);
  }
  g.stride_a = left.numel() > g.m * g.k ? g.m * g.k : 0;
  g.stride_b = right.numel() > g.k * g.n ? g.k * g.n : 0;
  g.stride_c = g.m * g.n;
  g.a = left.raw();
  g.b = right.raw();
  g.c = c.raw();
  g.transpose_a = ta;
  g.transpose_b = tb;
  g.lda = a.dim(-1);
  g.ldb = b.dim(-1);
  g.ldc = g.n;
  run_on(a.device(), g);
  return c;
}

}  // namespace

Variable matmul(Context& ctx, const Variable& p, const Variable& q) {
  DTN_CHECK(p.value().rank() >= 2 && q.value().rank() >= 2 && p.dim(-1) == q.dim(-2),
            "matmul: cannot multiply ", to_string(p.shape()), " by ", to_string(q.shape()));
  const bool mixed = p.dtype() != q.dtype();
  const Variable a = mixed ? upcast(ctx, p) : p, b = mixed ? upcast(ctx, q) : q;
  DTN_CHECK(a.dtype() == b.dtype() && a.device() == b.device(), "matmul: cannot multiply ",
            name_of(p.dtype()), " on ", to_string(p.device()), " by ", name_of(q.dtype()), " on ",
            to_string(q.device()));
  return ctx.record(
      "matmul", product(a.value(), false, b.value(), false), {&a, &b},
      [a = a.value(), b = b.value(), da = a.sink(), db = b.sink()](const Tensor& dy) {
        if (da) da->accumulate(sum_to(product(dy, false, b, true), a.shape()));
        if (!db) return;
        if (leading(b.shape()).numel() == 1 && a.numel() / a.dim(-1) == dy.numel() / dy.dim(-1)) {
          // If all rows share one matrix, one product sums its gradient over all rows.
          const Tensor sum = product(as_rows(a), true, as_rows(dy), false);
          db->accumulate(sum.reshape(b.shape()));
        } else {
          db->accumulate(sum_to(product(a, true, dy, false), b.shape()));
        }
      });
}

}  // namespace dtn::primitive
