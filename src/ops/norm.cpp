#include "dtn/ops/norm.h"

#include "dtn/ops/elementary.h"
#include "kernels/layer_norm.h"
#include "ops/norm_gradients.h"

namespace dtn::ops {

Variable layer_norm(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                    double eps) {
  std::int64_t channels = x.dim(-1), rows = x.value().numel() / channels;
  DTN_CHECK(weight.value().numel() == channels, "layer_norm: input ", to_string(x.shape()),
            " does not fit weight ", to_string(weight.shape()));
  DType acc = accumulator_of(x.dtype());
  Tensor y = Tensor::empty_like(x.value());
  Tensor mean = Tensor::empty({rows}, acc), rstd = Tensor::empty({rows}, acc);
  Tensor w = weight.value_as(acc), b = bias.value_as(acc);
  run(cpu_queue(), LayerNormForward{x.dtype(), rows, channels, eps, x.value().raw(), w.raw(),
                                    b.raw(), y.raw(), mean.raw(), rstd.raw()});
  return ctx.record("layer_norm", y, {&x, &weight, &bias},
                    [=, x = x.value(), dx = x.sink(), dweight = weight.sink(),
                     dbias = bias.sink()](const Tensor& dy) {
                      NormInputGradient input(dx, x);
                      LayerNormBackward args{};
                      args.dtype = x.dtype();
                      args.rows = rows;
                      args.channels = channels;
                      args.x = x.raw();
                      args.weight = w.raw();
                      args.mean = mean.raw();
                      args.rstd = rstd.raw();
                      args.dy = dy.raw();
                      args.dx_add = input.waiting();
                      args.dx = input.destination();
                      args.dweight = buffer_or_null(dweight, {channels}, acc);
                      args.dbias = buffer_or_null(dbias, {channels}, acc);
                      run(cpu_queue(), args);
                      input.deliver();
                    });
}

namespace reference {
using namespace elementary;

Variable layer_norm(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                    double eps) {
  Variable centred = sub(ctx, x, mean(ctx, x, -1));
  Variable var = mean(ctx, mul(ctx, centred, centred), -1);
  Variable xhat = div(ctx, centred, sqrt(ctx, affine(ctx, var, 1, eps)));
  return add(ctx, mul(ctx, xhat, weight), bias);
}

}  // namespace reference
}  // namespace dtn::ops
