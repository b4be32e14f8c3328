#include "kernels/norm/layer_norm.h"

#include "dtn/ops/norm.h"
#include "dtn/ops/primitive.h"
#include "ops/norm/fused_sum.h"
#include "ops/norm/norm_gradients.h"

namespace dtn::ops {

namespace {

// Inputs of the backward pass of a norm over [rows, C].
struct LayerNormSaved {
  Tensor x, mean, rstd, weight;
  GradSink dx, dweight, dbias;
  std::int64_t rows, channels;

  LayerNormSaved(const Variable& input, const Variable& w, const Variable& b)
      : x(input.value()),
        weight(w.value_as(accumulator_of(input.dtype()))),
        dx(input.sink()),
        dweight(w.sink()),
        dbias(b.sink()),
        channels(input.dim(-1)) {
    DTN_CHECK(w.value().numel() == channels, "layer_norm: input ", to_string(input.shape()),
              " does not fit weight ", to_string(w.shape()));
    rows = x.numel() / channels;
    mean = Tensor::empty({rows}, accumulator_of(x.dtype()), x.device());
    rstd = Tensor::empty_like(mean);
  }

  LayerNormBackward arguments(const Tensor& dy, NormInputGradient& input) const {
    LayerNormBackward args{};
    args.dtype = x.dtype();
    args.rows = rows;
    args.channels = channels;
    args.x = x.raw();
    args.weight = weight.raw();
    args.mean = mean.raw();
    args.rstd = rstd.raw();
    args.dy = dy.raw();
    args.dx_add = input.waiting();
    args.dx = input.destination();
    args.dweight = buffer_or_null(dweight, {channels}, mean.dtype(), x.device());
    args.dbias = buffer_or_null(dbias, {channels}, mean.dtype(), x.device());
    return args;
  }
};

}  // namespace

Variable layer_norm(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                    double eps) {
  LayerNormSaved saved(x, weight, bias);
  Tensor y = Tensor::empty_like(x.value());
  Tensor b = bias.value_as(accumulator_of(x.dtype()));
  run_on(x.device(), LayerNormForward{x.dtype(), saved.rows, saved.channels, eps, x.value().raw(),
                                      saved.weight.raw(), b.raw(), y.raw(), saved.mean.raw(),
                                      saved.rstd.raw()});
  return ctx.record("layer_norm", y, {&x, &weight, &bias}, [saved](const Tensor& dy) {
    NormInputGradient input(saved.dx, saved.x);
    run_on(dy.device(), saved.arguments(dy, input));
    input.deliver();
  });
}

SumAndNorm residual_layer_norm(Context& ctx, const Variable& residual, const Variable& branch,
                               const Tensor& scale, const Variable& weight, const Variable& bias,
                               double eps) {
  const FusedSum fused(ctx, residual, branch, scale);
  const Variable& sum = fused.sum;
  LayerNormSaved saved(sum, weight, bias);
  Tensor y = Tensor::empty_like(saved.x), b = bias.value_as(saved.mean.dtype());
  std::int64_t rows_per_scale = scale.defined() ? saved.rows / scale.numel() : 1;
  ResidualLayerNormForward args{};
  args.dtype = saved.x.dtype();
  args.rows = saved.rows;
  args.channels = saved.channels;
  args.eps = eps;
  args.residual = residual.value().raw();
  args.branch = branch.value().raw();
  args.row_scale = scale.defined() ? scale.raw() : nullptr;
  args.rows_per_scale = rows_per_scale;
  args.sum = saved.x.raw();
  args.weight = saved.weight.raw();
  args.bias = b.raw();
  args.y = y.raw();
  args.mean = saved.mean.raw();
  args.rstd = saved.rstd.raw();
  run_on(residual.device(), args);
  Variable normed =
      ctx.record("layer_norm", y, {&sum, &weight, &bias},
                 [saved, rows_per_scale, branch_gradient = fused.gradient](const Tensor& dy) {
                   NormInputGradient input(saved.dx, saved.x);
                   LayerNormBackward back = saved.arguments(dy, input);
                   Tensor dbranch = back.dx ? branch_gradient.make_like(saved.x) : Tensor();
                   if (dbranch.defined()) {
                     back.dbranch = dbranch.raw();
                     back.dbranch_sums = branch_gradient.sum_columns();
                     back.row_scale = branch_gradient.scale().raw();
                     back.rows_per_scale = rows_per_scale;
                   }
                   run_on(dy.device(), back);
                   input.deliver();
                 });
  return {sum, normed};
}

namespace reference {
using namespace primitive;

Variable layer_norm(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                    double eps) {
  const Variable wide = upcast(ctx, x);
  Variable centred = sub(ctx, wide, mean(ctx, wide, -1));
  Variable var = mean(ctx, mul(ctx, centred, centred), -1);
  Variable xhat = div(ctx, centred, sqrt(ctx, affine(ctx, var, 1, eps)));
  return cast(ctx, add(ctx, mul(ctx, xhat, weight), bias), x.dtype());
}

}  // namespace reference
}  // namespace dtn::ops
