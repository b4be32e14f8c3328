#include "dtn/ops/pixel_loss.h"

#include "dtn/ops/primitive.h"
#include "kernels/loss/pixel_loss.h"

namespace dtn::ops {
namespace {

void check_target(const Variable& output, const Tensor& target) {
  const DType acc = accumulator_of(output.dtype());
  DTN_CHECK(target.defined() && target.shape() == output.shape() && target.dtype() == acc,
            "pixel_loss: the target must be ", name_of(acc), " ", to_string(output.shape()),
            ", like the output");
  DTN_CHECK(output.value().numel() > 0, "pixel_loss: the output has no elements");
}

PixelLossInputs inputs_of(const Tensor& output, const Tensor& target, const TranslateConfig& w) {
  return {.dtype = output.dtype(),
          .values = output.numel(),
          .weights = {w.l1, w.l2, w.charbonnier, w.charbonnier_eps},
          .output = output.raw(),
          .target = target.raw()};
}

}  // namespace

PixelLoss pixel_loss(Context& ctx, const Variable& output, const Tensor& target,
                     const TranslateConfig& weights) {
  check_target(output, target);
  const DType acc = accumulator_of(output.dtype());
  const Device device = output.device();
  const std::int64_t pieces = pixel_pieces(output.value().numel());
  Tensor sums = Tensor::empty({pieces, kPixelTerms}, DType::kFloat64, device);
  Tensor means = Tensor::empty({kPixelTerms}, acc, device), loss = Tensor::empty({1}, acc, device);
  run_on(device, PixelLossForward{inputs_of(output.value(), target, weights),
                                  static_cast<double*>(sums.raw()), means.raw(), loss.raw()});
  PixelLoss result;
  result.l1 = means.slice(0, 1);
  result.l2 = means.slice(1, 2);
  result.charbonnier = means.slice(2, 3);
  result.loss = ctx.record(
      "pixel_loss", loss, {&output},
      [target, weights, output = output.value(), to_output = output.sink()](const Tensor& dy) {
        Tensor grad = output.unique() ? output : Tensor::empty_like(output);
        run_on(dy.device(),
               PixelLossBackward{inputs_of(output, target, weights), dy.raw(), grad.raw()});
        to_output->accumulate(std::move(grad));
      });
  return result;
}

namespace reference {

Variable pixel_loss(Context& ctx, const Variable& output, const Tensor& target,
                    const TranslateConfig& w) {
  using namespace primitive;
  check_target(output, target);
  const std::int64_t count = output.value().numel();
  const Variable d = reshape(ctx, sub(ctx, upcast(ctx, output), Variable(target)), {count});
  const Variable squares = mul(ctx, d, d);
  const Variable absolute = add(ctx, relu(ctx, d), relu(ctx, neg(ctx, d)));
  const Variable smooth = sqrt(ctx, affine(ctx, squares, 1, w.charbonnier_eps * w.charbonnier_eps));
  Variable each = affine(ctx, absolute, w.l1);
  each = add(ctx, each, affine(ctx, squares, w.l2));
  each = add(ctx, each, affine(ctx, smooth, w.charbonnier));
  return reshape(ctx, mean(ctx, each, 0), {1});
}

}  // namespace reference
}  // namespace dtn::ops
