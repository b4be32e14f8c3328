#include "dtn/ops/gather.h"

#include "dtn/ops/primitive.h"
#include "kernels/gemm/linear.h"
#include "kernels/pointwise/gather.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/primitive/select.h"
#include "ops/host_constant.h"
#include "ops/pointwise/rows.h"
#include "ops/primitive/tensors.h"

namespace dtn::ops {
namespace {

void check_grid(const Variable& x, std::int64_t grid_h, std::int64_t grid_w) {
  DTN_CHECK(x.value().rank() == 3 && x.dim(1) == grid_h * grid_w, "neighbours: input ",
            to_string(x.shape()), " is not [B, ", grid_h, " x ", grid_w, ", C]");
}

}  // namespace

Variable neighbours(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w) {
  check_grid(x, grid_h, grid_w);
  const std::int64_t batch = x.dim(0), channels = x.dim(2);
  Tensor y = Tensor::empty({batch, x.dim(1), 9 * channels}, x.dtype(), x.device());
  run_on(x.device(),
         NeighboursForward{x.dtype(), batch, grid_h, grid_w, channels, x.value().raw(), y.raw()});
  return ctx.record(
      "neighbours", y, {&x}, [=, shape = x.shape(), to_x = x.sink()](const Tensor& dy) {
        Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device());
        run_on(dy.device(),
               NeighboursBackward{dy.dtype(), batch, grid_h, grid_w, channels, dy.raw(), dx.raw()});
        to_x->accumulate(std::move(dx));
      });
}

Variable take_rows(Context& ctx, const Variable& table, const Tensor& index) {
  primitive::check_index("take_rows", table.value(), 0, index, "of sample");
  const std::int64_t rows = index.numel(), columns = table.dim(1), table_rows = table.dim(0);
  const auto* places = static_cast<const std::int64_t*>(index.raw());
  Tensor y = Tensor::empty({rows, columns}, table.dtype(), table.device());
  run_on(table.device(), SelectForward{table.dtype(), 1, table_rows, columns, rows,
                                       table.value().raw(), places, y.raw()});
  return ctx.record(
      "take_rows", y, {&table}, [=, shape = table.shape(), sink = table.sink()](const Tensor& dy) {
        Tensor& dtable = sink->buffer(shape, accumulator_of(dy.dtype()), dy.device());
        run_on(dy.device(), SelectBackward{dy.dtype(), 1, table_rows, columns, rows,
                                           static_cast<const std::int64_t*>(index.raw()), dy.raw(),
                                           dtable.raw()});
      });
}

// Uses the three products of a linear layer in other roles. The product of weights [B, S] and table
// [S, C] is that of a linear layer's input gradient.
Variable mix_rows(Context& ctx, const Variable& table, const Variable& weights) {
  DTN_CHECK(weights.value().rank() == 2 && weights.dim(1) == table.dim(0), "mix_rows: weights ",
            to_string(weights.shape()), " do not fit a table ", to_string(table.shape()));
  const std::int64_t rows = weights.dim(0), out = table.dim(0), in = table.dim(1);
  const DType dtype = weights.dtype();
  Tensor values = table.value_as(dtype);
  Tensor y = Tensor::empty({rows, in}, dtype, weights.device());
  LinearBackwardInput args{};
  args.dtype = dtype;
  args.rows = rows;
  args.in = in;
  args.out = out;
  args.dy = weights.value().raw();
  args.weight = values.raw();
  args.dx = y.raw();
  run_on(weights.device(), args);
  return ctx.record(
      "mix_rows", y, {&table, &weights},
      [=, weights = weights.value(), to_table = table.sink(),
       to_weights = weights.sink()](const Tensor& dy) {
        if (to_weights) {
          Tensor dweights = Tensor::empty_like(weights);
          LinearForward forward{};
          forward.dtype = dtype;
          forward.rows = rows;
          forward.in = in;
          forward.out = out;
          forward.x = dy.raw();
          forward.weight = values.raw();
          forward.y = dweights.raw();
          run_on(dy.device(), forward);
          to_weights->accumulate(std::move(dweights));
        }
        if (!to_table) return;
        Tensor& dtable = to_table->buffer({out, in}, accumulator_of(dtype), dy.device());
        run_on(dy.device(), LinearBackwardWeight{dtype, rows, in, out, weights.raw(), dy.raw(),
                                                 dtable.raw(), nullptr});
      });
}

Variable join_columns(Context& ctx, const Variable& a, const Variable& b) {
  const std::int64_t left = a.dim(-1), right = b.dim(-1);
  DTN_CHECK(a.dtype() == b.dtype() && with_last(b.shape(), left) == a.shape(),
            "join_columns: cannot join ", to_string(a.shape()), " and ", to_string(b.shape()));
  Tensor y = Tensor::empty(with_last(a.shape(), left + right), a.dtype(), a.device());
  const std::int64_t rows = y.numel() / (left + right);
  copy_rows(a.value(), 0, left, y, 0, left + right, rows, left);
  copy_rows(b.value(), 0, right, y, left, left + right, rows, right);
  return ctx.record(
      "join_columns", y, {&a, &b},
      [=, shape = a.shape(), to_a = a.sink(), to_b = b.sink()](const Tensor& dy) {
        auto send = [&](const GradSink& sink, std::int64_t begin, std::int64_t columns) {
          if (!sink) return;
          Tensor part = Tensor::empty(with_last(shape, columns), dy.dtype(), dy.device());
          copy_rows(dy, begin, left + right, part, 0, columns, rows, columns);
          sink->accumulate(std::move(part));
        };
        send(to_a, 0, left);
        send(to_b, left, right);
      });
}

namespace reference {
using namespace primitive;

Variable neighbours(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w) {
  check_grid(x, grid_h, grid_w);
  const std::int64_t batch = x.dim(0), tokens = x.dim(1), channels = x.dim(2);
  Variable padded = reshape(ctx, x, {batch, grid_h, grid_w, channels});
  padded = pad(ctx, pad(ctx, padded, 1, 1, 1), 2, 1, 1);
  Variable all;
  for (std::int64_t k = 0; k < 9; ++k) {
    Variable rows = narrow(ctx, padded, 1, k / 3, k / 3 + grid_h);
    Variable part =
        reshape(ctx, narrow(ctx, rows, 2, k % 3, k % 3 + grid_w), {batch, tokens, channels});
    all = k == 0 ? part : concat(ctx, all, part, 2);
  }
  return all;
}

Variable take_rows(Context& ctx, const Variable& table, const Tensor& index) {
  check_index("take_rows", table.value(), 0, index, "of sample");
  // A product with rows of one-hot vectors, so the entries of the table must be finite.
  const Tensor rows = index.to(kCpu);
  const std::int64_t extent = table.dim(0);
  const auto is_taken = [&](std::int64_t i) {
    return rows.data<std::int64_t>()[i / extent] == i % extent;
  };
  const Shape shape{rows.numel(), extent};
  const Tensor taken = host_constant(shape, table.dtype(), table.device(), is_taken);
  return matmul(ctx, Variable(taken), table);
}

Variable mix_rows(Context& ctx, const Variable& table, const Variable& weights) {
  return cast(ctx, matmul(ctx, upcast(ctx, weights), table), weights.dtype());
}

Variable join_columns(Context& ctx, const Variable& a, const Variable& b) {
  return concat(ctx, a, b, -1);
}

}  // namespace reference
}  // namespace dtn::ops
