#include "dtn/nn/conv2d.h"

#include <cmath>

#include "dtn/nn/initializers.h"
#include "dtn/ops/convolution.h"

namespace dtn {
namespace {

Parameter* make_weight(const Scope& scope, std::int64_t in, std::int64_t out,
                       const Conv2d::Options& o) {
  DTN_CHECK(o.groups > 0 && in % o.groups == 0 && out % o.groups == 0, scope.path, ": ", in,
            " channels and ", out, " outputs are not divisible into ", o.groups, " groups");
  const Shape shape{out, in / o.groups, o.kernel[0], o.kernel[1]};
  return scope.weight("weight", shape, o.init ? o.init : init_convolution(shape.numel() / out),
                      Decay::kYes);
}

}  // namespace

Conv2d::Conv2d(const Scope& scope, std::int64_t in, std::int64_t out, const Options& o)
    : weight(make_weight(scope, in, out, o)),
      bias(o.bias ? scope.weight("bias", {out}, InitKind::kZeros) : nullptr),
      how{o.stride, o.padding, o.groups} {}

Variable Conv2d::forward(Context& ctx, const Variable& x) const {
  DTN_CHECK(x.value().rank() == 4, "conv2d: input ", to_string(x.shape()), " is not [B, C, H, W]");
  const std::int64_t batch = x.dim(0), height = x.dim(2), width = x.dim(3);
  const auto [out_h, out_w] = ops::convolved_grid(
      {height, width}, {weight->shape[2], weight->shape[3]}, how.stride, how.padding);
  const Variable tokens = primitive::reshape(ctx, primitive::permute(ctx, x, {0, 2, 3, 1}),
                                             {batch, height * width, x.dim(1)});
  // The gradients of weight and bias get the types of the parameters.
  const DType acc = accumulator_of(x.dtype());
  const Variable w = primitive::cast(ctx, weight->variable, acc);
  const Variable b = bias ? primitive::cast(ctx, bias->variable, acc) : Variable();
  const Variable y = ops::convolution(ctx, tokens, height, width, w, b, how);
  return primitive::permute(
      ctx, primitive::reshape(ctx, y, {batch, out_h, out_w, weight->shape[0]}), {0, 3, 1, 2});
}

CustomInit init_convolution(std::int64_t fan_in) {
  return truncated_normal(1 / std::sqrt(3.0 * static_cast<double>(fan_in)));
}

}  // namespace dtn
