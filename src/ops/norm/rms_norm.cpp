#include "ops/norm/rms_norm.h"

#include "dtn/ops/primitive.h"
#include "ops/norm/norm_gradients.h"

namespace dtn::ops {

Variable rms_norm(Context& ctx, RmsNormKind kind, const Variable& x, const Variable& weight,
                  double eps) {
  const std::int64_t channels = weight.value().numel();
  DTN_CHECK(x.dim(-1) == channels, "rms_norm: input ", to_string(x.shape()), " does not end in ",
            channels, " channels");
  const std::int64_t rows = x.value().numel() / channels;
  const DType acc = accumulator_of(x.dtype());
  const Tensor gain = weight.value_as(acc);
  Tensor y = Tensor::empty_like(x.value());
  Tensor factor = Tensor::empty({rows}, acc, x.device());
  const RmsNormArguments args{x.dtype(), kind, rows, channels, eps, x.value().raw(), gain.raw()};
  run_on(x.device(), RmsNormForward{args, y.raw(), factor.raw()});
  // The backward pass keeps x and gain, which args points to.
  return ctx.record(
      "rms_norm", y, {&x, &weight},
      [=, x = x.value(), gain = gain, sink = x.sink(), dweight = weight.sink()](const Tensor& dy) {
        NormInputGradient input(sink, x);
        RmsNormBackward back{args, factor.raw(), dy.raw()};
        back.dx_add = input.waiting();
        back.dx = input.destination();
        back.dweight = buffer_or_null(dweight, {channels}, acc, x.device());
        run_on(x.device(), back);
        input.deliver();
      });
}

namespace reference {
using namespace primitive;

Variable rms_norm(Context& ctx, RmsNormKind kind, const Variable& x, const Variable& weight,
                  double eps) {
  const Variable wide = upcast(ctx, x), squares = mul(ctx, wide, wide);
  // ScaleNorm takes the maximum of |x|^2 and eps^2 before the root, whose slope at 0 is infinite.
  const Variable under_root =
      kind == RmsNormKind::kRms
          ? affine(ctx, mean(ctx, squares, -1), 1, eps)
          : affine(ctx, relu(ctx, affine(ctx, sum(ctx, squares, -1), 1, -eps * eps)), 1, eps * eps);
  const Variable normal = div(ctx, wide, sqrt(ctx, under_root));
  return cast(ctx, mul(ctx, normal, weight), x.dtype());
}

}  // namespace reference
}  // namespace dtn::ops
