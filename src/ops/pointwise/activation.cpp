#include "dtn/ops/activation.h"

#include "dtn/ops/primitive.h"
#include "kernels/pointwise/activation.h"

namespace dtn::ops {
namespace {

Variable activation(Context& ctx, const char* op, Activation kind, const Variable& x) {
  Tensor y = Tensor::empty_like(x.value());
  run_on(x.device(), ActivationForward{x.dtype(), kind, y.numel(), x.value().raw(), y.raw()});
  return ctx.record(op, y, {&x}, [kind, x = x.value(), dx = x.sink()](const Tensor& dy) {
    Tensor grad = Tensor::empty_like(x);
    run_on(x.device(),
           ActivationBackward{x.dtype(), kind, x.numel(), x.raw(), dy.raw(), grad.raw()});
    dx->accumulate(std::move(grad));
  });
}

}  // namespace

Variable relu(Context& ctx, const Variable& x) {
  return activation(ctx, "relu", Activation::kRelu, x);
}
Variable silu(Context& ctx, const Variable& x) {
  return activation(ctx, "silu", Activation::kSilu, x);
}
Variable tanh(Context& ctx, const Variable& x) {
  return activation(ctx, "tanh", Activation::kTanh, x);
}
Variable gelu_tanh(Context& ctx, const Variable& x) {
  return activation(ctx, "gelu_tanh", Activation::kGeluTanh, x);
}
Variable quick_gelu(Context& ctx, const Variable& x) {
  return activation(ctx, "quick_gelu", Activation::kQuickGelu, x);
}
Variable hardswish(Context& ctx, const Variable& x) {
  return activation(ctx, "hardswish", Activation::kHardswish, x);
}

namespace reference {
using namespace primitive;

Variable relu(Context& ctx, const Variable& x) { return primitive::relu(ctx, x); }
Variable silu(Context& ctx, const Variable& x) {
  const Variable wide = upcast(ctx, x);
  return cast(ctx, mul(ctx, wide, sigmoid(ctx, wide)), x.dtype());
}
Variable tanh(Context& ctx, const Variable& x) { return primitive::tanh(ctx, x); }
Variable gelu_tanh(Context& ctx, const Variable& x) {
  const Variable wide = upcast(ctx, x);
  const Variable inner = add(ctx, wide, affine(ctx, power(ctx, wide, 3), kGeluTanhCubic));
  const Variable bent = primitive::tanh(ctx, affine(ctx, inner, kGeluTanhScale / 2));
  return cast(ctx, mul(ctx, wide, affine(ctx, bent, 0.5, 0.5)), x.dtype());
}
Variable quick_gelu(Context& ctx, const Variable& x) {
  const Variable wide = upcast(ctx, x);
  const Variable gate = sigmoid(ctx, affine(ctx, wide, kQuickGeluScale));
  return cast(ctx, mul(ctx, wide, gate), x.dtype());
}
Variable hardswish(Context& ctx, const Variable& x) {
  const Variable wide = upcast(ctx, x);
  const Variable above = primitive::relu(ctx, affine(ctx, wide, 1, 3));
  const Variable clipped = minimum(ctx, constant(wide, 6), above);
  return cast(ctx, mul(ctx, wide, affine(ctx, clipped, 1.0 / 6)), x.dtype());
}

}  // namespace reference
}  // namespace dtn::ops
