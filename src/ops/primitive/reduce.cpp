// Reductions and softmax; see dtn/ops/primitive.h.
#include "dtn/ops/primitive.h"
#include "kernels/primitive/softmax.h"
#include "ops/primitive/tensors.h"

namespace dtn::primitive {
namespace {

Mask mask_of(const Shape& shape, const Dims& dims) {
  Mask mask{};
  for (int dim : dims.all())
    mask[static_cast<std::size_t>(normalize_dim(dim, shape.rank()))] = true;
  return mask;
}

Variable scaled_sum(Context& ctx, const char* op, const Variable& x, const Dims& dims,
                    bool average) {
  const Mask mask = mask_of(x.shape(), dims);
  double count = 1;
  for (int d = 0; d < x.value().rank(); ++d) {
    if (mask[static_cast<std::size_t>(d)]) count *= static_cast<double>(x.dim(d));
  }
  const double scale = average ? 1 / count : 1;
  return ctx.record(op, reduce(x.value(), Reduction::kSum, mask, x.dtype(), scale), {&x},
                    [shape = x.shape(), scale, dx = x.sink()](const Tensor& dy) {
                      dx->accumulate(map(Function::kAffine, shape, {&dy}, scale));
                    });
}

}  // namespace

Dims::Dims(std::initializer_list<int> dims) : count_(static_cast<int>(dims.size())) {
  DTN_CHECK(dims.size() <= dims_.size(), dims.size(), " dimensions; a tensor has at most ",
            dims_.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

Variable sum(Context& ctx, const Variable& x, const Dims& dims) {
  return scaled_sum(ctx, "sum", x, dims, false);
}
Variable mean(Context& ctx, const Variable& x, const Dims& dims) {
  return scaled_sum(ctx, "mean", x, dims, true);
}

Variable max(Context& ctx, const Variable& x, const Dims& dims) {
  const Mask mask = mask_of(x.shape(), dims);
  Tensor y = reduce(x.value(), Reduction::kMax, mask, x.dtype());
  return ctx.record("max", y, {&x}, [mask, y, x = x.value(), dx = x.sink()](const Tensor& dy) {
    const Tensor reached = map(Function::kEqual, x.shape(), {&x, &y});
    const Tensor holders = reduce(reached, Reduction::kSum, mask, x.dtype());
    const Tensor share = map(Function::kDiv, dy.shape(), {&dy, &holders});
    dx->accumulate(map(Function::kMul, x.shape(), {&reached, &share}));
  });
}

Variable softmax(Context& ctx, const Variable& x) {
  DTN_CHECK(x.value().rank() > 0, "softmax needs at least one dimension");
  Tensor y = Tensor::empty_like(x.value());
  const std::int64_t columns = x.dim(-1), rows = columns > 0 ? y.numel() / columns : 0;
  run_on(x.device(), SoftmaxForward{x.dtype(), rows, columns, x.value().raw(), y.raw()});
  return ctx.record("softmax", y, {&x}, [=, dx = x.sink()](const Tensor& dy) {
    Tensor grad = Tensor::empty_like(y);
    run_on(y.device(), SoftmaxBackward{y.dtype(), rows, columns, y.raw(), dy.raw(), grad.raw()});
    dx->accumulate(std::move(grad));
  });
}

}  // namespace dtn::primitive
