#include "dtn/ops/tokens.h"

#include "dtn/ops/linear.h"
#include "ops/pointwise/rows.h"

namespace dtn::ops {
namespace {

// sink += sum of the `rows` rows of x, in the accumulator type.
void sum_rows_into(const Tensor& x, std::int64_t rows, const GradSink& sink, const Shape& shape) {
  Tensor& total = sink->buffer(shape, accumulator_of(x.dtype()), x.device());
  run_on(x.device(), SumRows{x.dtype(), rows, x.numel() / rows, x.raw(), total.raw()});
}

}  // namespace

Variable patch_embed(Context& ctx, const Tensor& images, const Variable& weight,
                     const Variable& bias, DType dtype) {
  std::int64_t batch = images.dim(0), channels = images.dim(1), patch = weight.dim(2);
  std::int64_t height = images.dim(2), width = images.dim(3);
  DTN_CHECK(weight.dim(1) == channels && height % patch == 0 && width % patch == 0, "images ",
            to_string(images.shape()), " are not divisible into patches of ",
            to_string(weight.shape()));
  std::int64_t tokens = height / patch * (width / patch), size = channels * patch * patch;
  Tensor patches = Tensor::empty({batch, tokens, size}, dtype, images.device());
  run_on(images.device(),
         Patchify{dtype, batch, channels, height, width, patch, images.raw(), patches.raw()});
  // Treats the parameter as the matrix of a linear layer. The gradient buffer has the shape of the
  // convolution, with the same elements in the same order.
  return linear(ctx, Variable(patches), weight.reshaped({weight.dim(0), size}), bias);
}

Variable add_positions(Context& ctx, const Variable& tokens, const Variable& positions) {
  std::int64_t batch = tokens.dim(0), row = tokens.value().numel() / batch;
  DTN_CHECK(positions.value().numel() == row, "positions ", to_string(positions.shape()),
            " do not fit tokens ", to_string(tokens.shape()));
  Tensor y = Tensor::empty_like(tokens.value());
  run_on(y.device(), AddToRows{tokens.dtype(), batch, row, tokens.value().raw(),
                               positions.value().raw(), y.raw()});
  return ctx.record("add_positions", y, {&tokens, &positions},
                    [batch, shape = positions.shape(), dtokens = tokens.sink(),
                     dpositions = positions.sink()](const Tensor& dy) {
                      if (dpositions) sum_rows_into(dy, batch, dpositions, shape);
                      if (dtokens) dtokens->accumulate(dy);
                    });
}

Variable prepend_tokens(Context& ctx, const Variable& tokens, const Variable& first) {
  std::int64_t batch = tokens.dim(0), count = tokens.dim(1), width = tokens.dim(2);
  std::int64_t in_row = count * width, first_row = first.dim(1) * width;
  std::int64_t out_row = first_row + in_row;
  Tensor y = Tensor::empty({batch, first.dim(1) + count, width}, tokens.dtype(), tokens.device());
  Tensor shared = first.value_as(tokens.dtype());
  copy_rows(shared, 0, 0, y, 0, out_row, batch, first_row);
  copy_rows(tokens.value(), 0, in_row, y, first_row, out_row, batch, in_row);
  return ctx.record(
      "prepend_tokens", y, {&tokens, &first},
      [=, shape = first.shape(), dtokens = tokens.sink(), dfirst = first.sink()](const Tensor& dy) {
        if (dfirst) {
          Tensor d = Tensor::empty({batch, first_row}, dy.dtype(), dy.device());
          copy_rows(dy, 0, out_row, d, 0, first_row, batch, first_row);
          sum_rows_into(d, batch, dfirst, shape);
        }
        if (dtokens) {
          Tensor d = Tensor::empty({batch, count, width}, dy.dtype(), dy.device());
          copy_rows(dy, first_row, out_row, d, 0, in_row, batch, in_row);
          dtokens->accumulate(std::move(d));
        }
      });
}

Variable first_token(Context& ctx, const Variable& tokens) {
  std::int64_t batch = tokens.dim(0), count = tokens.dim(1), width = tokens.dim(2);
  std::int64_t row = count * width;
  Tensor y = Tensor::empty({batch, width}, tokens.dtype(), tokens.device());
  copy_rows(tokens.value(), 0, row, y, 0, width, batch, width);
  return ctx.record("first_token", y, {&tokens},
                    [=, shape = tokens.shape(), dtokens = tokens.sink()](const Tensor& dy) {
                      Tensor d = Tensor::zeros(shape, dy.dtype(), dy.device());
                      copy_rows(dy, 0, width, d, 0, row, batch, width);
                      dtokens->accumulate(std::move(d));
                    });
}

Variable first_tokens(Context& ctx, const Variable& tokens, std::int64_t count) {
  if (count > 1) return primitive::narrow(ctx, tokens, 1, 0, count);
  return primitive::reshape(ctx, first_token(ctx, tokens), {tokens.dim(0), 1, tokens.dim(2)});
}

Variable mean_token(Context& ctx, const Variable& tokens) {
  std::int64_t batch = tokens.dim(0), count = tokens.dim(1), width = tokens.dim(2);
  Tensor y = Tensor::empty({batch, width}, tokens.dtype(), tokens.device());
  run_on(y.device(), MeanRows{tokens.dtype(), batch, count, width, tokens.value().raw(), y.raw()});
  return ctx.record(
      "mean_token", y, {&tokens},
      [=, shape = tokens.shape(), dtokens = tokens.sink()](const Tensor& dy) {
        Tensor d = Tensor::empty(shape, dy.dtype(), dy.device());
        run_on(dy.device(), SpreadMean{dy.dtype(), batch, count, width, dy.raw(), d.raw()});
        dtokens->accumulate(std::move(d));
      });
}

namespace reference {
using namespace primitive;

Variable patch_embed(Context& ctx, const Tensor& images, const Variable& weight,
                     const Variable& bias) {
  std::int64_t batch = images.dim(0), channels = images.dim(1), p = weight.dim(2);
  std::int64_t gh = images.dim(2) / p, gw = images.dim(3) / p, width = weight.dim(0);
  Variable cut = permute(ctx, reshape(ctx, Variable(images), {batch * channels, gh, p, gw, p}),
                         {0, 1, 3, 2, 4});
  Variable grouped = permute(ctx, reshape(ctx, cut, {batch, channels, gh * gw, p * p}),
                             {0, 2, 1, 3});  // [B, T, channels, P P]
  Variable patches = reshape(ctx, grouped, {batch, gh * gw, channels * p * p});
  return linear(ctx, patches, primitive::reshape(ctx, weight, {width, channels * p * p}), bias);
}

Variable add_positions(Context& ctx, const Variable& tokens, const Variable& positions) {
  return cast(ctx, add(ctx, tokens, positions), tokens.dtype());
}

Variable prepend_tokens(Context& ctx, const Variable& tokens, const Variable& first) {
  const Variable shared = cast(ctx, first, tokens.dtype());
  const Shape shape = {tokens.dim(0), first.dim(1), tokens.dim(2)};
  return concat(ctx, broadcast_to(ctx, shared, shape), tokens, 1);
}

Variable first_token(Context& ctx, const Variable& tokens) {
  return reshape(ctx, narrow(ctx, tokens, 1, 0, 1), {tokens.dim(0), tokens.dim(2)});
}

Variable mean_token(Context& ctx, const Variable& tokens) {
  return reshape(ctx, mean(ctx, tokens, 1), {tokens.dim(0), tokens.dim(2)});
}

}  // namespace reference
}  // namespace dtn::ops
