#include "dtn/ops/gather.h"

#include "dtn/ops/primitive.h"
#include "kernels/gemm/linear.h"
#include "kernels/pointwise/gather.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::ops {
namespace {

void check_grid(const Variable& x, std::int64_t grid_h, std::int64_t grid_w) {
  DTN_CHECK(x.value().rank() == 3 && x.dim(1) == grid_h * grid_w, "neighbours: input ",
            to_string(x.shape()), " is not [B, ", grid_h, " x ", grid_w, ", C]");
}

void check_index(const Variable& table, const Tensor& index) {
  DTN_CHECK(index.defined() && index.rank() == 1 && index.dtype() == DType::kInt64,
            "take_rows needs an int64 index [R]");
  DTN_CHECK(index.device() == table.device(), "take_rows: the index is on ",
            to_string(index.device()), ", the table on ", to_string(table.device()));
  if (index.device() != kCpu) return;
  for (std::int64_t r = 0; r < index.numel(); ++r) {
    const std::int64_t row = index.data<std::int64_t>()[r];
    DTN_CHECK(0 <= row && row < table.dim(0), "index ", row, " of sample ", r, " is outside [0, ",
              table.dim(0), ")");
  }
}

// Copies `columns` of each row of x, from column x_begin on, to the rows of y from y_begin on.
void copy_columns(const Tensor& x, std::int64_t x_begin, Tensor& y, std::int64_t y_begin,
                  std::int64_t columns) {
  const std::size_t unit = size_of(x.dtype());
  run_on(x.device(),
         CopyRows{x.dtype(), x.numel() / x.dim(-1), columns,
                  static_cast<const std::byte*>(x.raw()) + static_cast<std::size_t>(x_begin) * unit,
                  x.dim(-1),
                  static_cast<std::byte*>(y.raw()) + static_cast<std::size_t>(y_begin) * unit,
                  y.dim(-1)});
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
  check_index(table, index);
  const std::int64_t rows = index.numel(), columns = table.dim(1), table_rows = table.dim(0);
  const auto* places = static_cast<const std::int64_t*>(index.raw());
  Tensor y = Tensor::empty({rows, columns}, table.dtype(), table.device());
  run_on(table.device(), TakeRowsForward{table.dtype(), rows, columns, table_rows,
                                         table.value().raw(), places, y.raw()});
  return ctx.record(
      "take_rows", y, {&table}, [=, shape = table.shape(), sink = table.sink()](const Tensor& dy) {
        Tensor& dtable = sink->buffer(shape, dy.dtype(), dy.device());
        run_on(dy.device(), TakeRowsBackward{dy.dtype(), rows, columns, table_rows,
                                             static_cast<const std::int64_t*>(index.raw()),
                                             dy.raw(), dtable.raw()});
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
  copy_columns(a.value(), 0, y, 0, left);
  copy_columns(b.value(), 0, y, left, right);
  return ctx.record(
      "join_columns", y, {&a, &b},
      [=, shape = a.shape(), to_a = a.sink(), to_b = b.sink()](const Tensor& dy) {
        auto send = [&](const GradSink& sink, std::int64_t begin, std::int64_t columns) {
          if (!sink) return;
          Tensor part = Tensor::empty(with_last(shape, columns), dy.dtype(), dy.device());
          copy_columns(dy, begin, part, 0, columns);
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
  check_index(table, index);
  return gather(ctx, table, 0, index);
}

Variable mix_rows(Context& ctx, const Variable& table, const Variable& weights) {
  return cast(ctx, matmul(ctx, upcast(ctx, weights), table), weights.dtype());
}

Variable join_columns(Context& ctx, const Variable& a, const Variable& b) {
  return concat(ctx, a, b, -1);
}

}  // namespace reference
}  // namespace dtn::ops
