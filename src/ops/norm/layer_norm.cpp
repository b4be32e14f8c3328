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
  BranchGradient branch;
  std::int64_t rows, channels, rows_per_scale = 1;

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

  void backward(const Tensor& dy) const {
    NormInputGradient input(dx, x);
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
    Tensor dbranch = args.dx ? branch.make_like(x) : Tensor();
    if (dbranch.defined()) {
      args.dbranch = dbranch.raw();
      args.dbranch_sums = branch.sum_columns();
      args.row_scale = branch.scale().raw();
      args.rows_per_scale = rows_per_scale;
    }
    run_on(dy.device(), args);
    input.deliver();
  }
};

// With `sum`, x is sum->sum, which the kernel computes on the way.
Variable norm_of(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                 double eps, const FusedSum* sum) {
  LayerNormSaved saved(x, weight, bias);
  Tensor y = Tensor::empty_like(saved.x), b = bias.value_as(saved.mean.dtype());
  LayerNormForward args{x.dtype(),        saved.rows,         saved.channels, eps,
                        saved.x.raw(),    saved.weight.raw(), b.raw(),        y.raw(),
                        saved.mean.raw(), saved.rstd.raw()};
  if (sum) {
    saved.branch = sum->gradient;
    if (sum->scale.defined()) saved.rows_per_scale = saved.rows / sum->scale.numel();
    args.residual = sum->residual.raw();
    args.branch = sum->branch.raw();
    args.row_scale = sum->scale.raw();
    args.rows_per_scale = saved.rows_per_scale;
    args.sum = saved.x.raw();
  }
  run_on(x.device(), args);
  return ctx.record("layer_norm", y, {&x, &weight, &bias},
                    [saved](const Tensor& dy) { saved.backward(dy); });
}

}  // namespace

Variable layer_norm(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                    double eps) {
  return norm_of(ctx, x, weight, bias, eps, nullptr);
}

SumAndNorm residual_layer_norm(Context& ctx, const Variable& residual, const Variable& branch,
                               const Tensor& scale, const Variable& weight, const Variable& bias,
                               double eps) {
  const FusedSum fused(ctx, residual, branch, scale);
  return {fused.sum, norm_of(ctx, fused.sum, weight, bias, eps, &fused)};
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
