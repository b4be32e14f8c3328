// Operations that move elements; see dtn/ops/primitive.h.
#include "dtn/ops/primitive.h"
#include "kernels/primitive/select.h"
#include "ops/primitive/tensors.h"

namespace dtn::primitive {

Variable reshape(Context& ctx, const Variable& x, const Shape& shape) {
  return ctx.record(
      "reshape", x.value().reshape(shape), {&x},
      [old = x.shape(), dx = x.sink()](const Tensor& dy) { dx->accumulate(dy.reshape(old)); });
}

Variable permute(Context& ctx, const Variable& x, std::initializer_list<int> order) {
  const int rank = x.value().rank();
  DTN_CHECK(static_cast<int>(order.size()) == rank, "permute: the order of ", to_string(x.shape()),
            " has ", order.size(), " dimensions");
  std::vector<int> forward, inverse(order.size(), -1);
  for (int dim : order) {
    const int d = normalize_dim(dim, rank);
    DTN_CHECK(inverse[static_cast<std::size_t>(d)] < 0, "permute: dimension ", d, " appears twice");
    inverse[static_cast<std::size_t>(d)] = static_cast<int>(forward.size());
    forward.push_back(d);
  }
  return ctx.record(
      "permute", permuted(x.value(), forward), {&x},
      [inverse, dx = x.sink()](const Tensor& dy) { dx->accumulate(permuted(dy, inverse)); });
}

Variable broadcast_to(Context& ctx, const Variable& x, const Shape& shape) {
  return ctx.record(
      "broadcast_to", broadcast(x.value(), shape), {&x},
      [old = x.shape(), dx = x.sink()](const Tensor& dy) { dx->accumulate(sum_to(dy, old)); });
}

Variable concat(Context& ctx, const Variable& a, const Variable& b, int dim) {
  dim = normalize_dim(dim, a.value().rank());
  const std::int64_t cut = a.dim(dim);
  Shape shape = a.shape(), other = b.shape();
  DTN_CHECK(other.rank() == shape.rank(), "concat: cannot join ", to_string(shape), " and ",
            to_string(other));
  const std::int64_t end = cut + other[dim];
  shape[dim] = other[dim] = end;
  DTN_CHECK(shape == other && a.dtype() == b.dtype() && a.device() == b.device(),
            "concat: cannot join ", name_of(a.dtype()), " ", to_string(a.shape()), " and ",
            name_of(b.dtype()), " ", to_string(b.shape()));
  Tensor y = Tensor::empty(shape, a.dtype(), a.device());
  insert(a.value(), y, dim, 0);
  insert(b.value(), y, dim, cut);
  return ctx.record("concat", y, {&a, &b},
                    [dim, cut, end, da = a.sink(), db = b.sink()](const Tensor& dy) {
                      if (da) da->accumulate(narrowed(dy, dim, 0, cut));
                      if (db) db->accumulate(narrowed(dy, dim, cut, end));
                    });
}

Variable narrow(Context& ctx, const Variable& x, int dim, std::int64_t begin, std::int64_t end,
                std::int64_t step) {
  dim = normalize_dim(dim, x.value().rank());
  return ctx.record("narrow", narrowed(x.value(), dim, begin, end, step), {&x},
                    [=, shape = x.shape(), to_x = x.sink()](const Tensor& dy) {
                      Tensor dx = Tensor::zeros(shape, dy.dtype(), dy.device());
                      insert(dy, dx, dim, begin, step);
                      to_x->accumulate(std::move(dx));
                    });
}

Variable pad(Context& ctx, const Variable& x, int dim, std::int64_t before, std::int64_t after,
             double value) {
  dim = normalize_dim(dim, x.value().rank());
  DTN_CHECK(before >= 0 && after >= 0, "pad: the widths must not be negative: ", before, " and ",
            after);
  const std::int64_t extent = x.dim(dim);
  Shape shape = x.shape();
  shape[dim] += before + after;
  Tensor y = full(shape, x.dtype(), x.device(), value).value();
  insert(x.value(), y, dim, before);
  return ctx.record("pad", y, {&x}, [=, dx = x.sink()](const Tensor& dy) {
    dx->accumulate(narrowed(dy, dim, before, before + extent));
  });
}

Variable gather(Context& ctx, const Variable& x, int dim, const Tensor& index) {
  dim = normalize_dim(dim, x.value().rank());
  check_index("gather", x.value(), dim, index, "at place");
  Shape shape = x.shape();
  shape[dim] = index.numel();
  std::int64_t outer = 1, inner = 1;
  for (int d = 0; d < dim; ++d) outer *= shape[d];
  for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  const std::int64_t extent = x.dim(dim), count = index.numel();
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  run_on(x.device(), SelectForward{x.dtype(), outer, extent, inner, count, x.value().raw(),
                                   static_cast<const std::int64_t*>(index.raw()), y.raw()});
  return ctx.record("gather", y, {&x}, [=, shape = x.shape(), dx = x.sink()](const Tensor& dy) {
    Tensor sums = Tensor::zeros(shape, accumulator_of(dy.dtype()), dy.device());
    run_on(dy.device(),
           SelectBackward{dy.dtype(), outer, extent, inner, count,
                          static_cast<const std::int64_t*>(index.raw()), dy.raw(), sums.raw()});
    dx->accumulate(cast_tensor(sums, dy.dtype()));
  });
}

}  // namespace dtn::primitive
