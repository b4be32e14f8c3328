#include "dtn/nn/token_conv.h"

#include <cmath>

#include "dtn/nn/initializers.h"
#include "dtn/ops/convolution.h"

namespace dtn {
namespace {

// Return the inputs per output, and the outputs per input, of a kernel [out, in / groups, k, k].
double fan_in_of(const Shape& kernel) {
  const std::int64_t inputs = kernel.numel() / kernel[0];
  return static_cast<double>(inputs);
}
double fan_out_of(const Shape& kernel, std::int64_t groups) {
  const std::int64_t outputs = kernel[0] / groups * kernel[2] * kernel[3];
  return static_cast<double>(outputs);
}

Initializer weight_init(const Shape& shape, const TokenConv::Options& o) {
  if (o.weight_init) return *o.weight_init;
  return o.init == ConvInit::kFanIn ? uniform_within(1 / std::sqrt(fan_in_of(shape)))
                                    : truncated_normal(std::sqrt(2 / fan_out_of(shape, o.groups)));
}

Initializer bias_init(const Shape& weight, const TokenConv::Options& o) {
  if (o.bias_init) return *o.bias_init;
  if (o.weight_init || o.init == ConvInit::kFanOut) return InitKind::kZeros;
  return uniform_within(1 / std::sqrt(fan_in_of(weight)));
}

Parameter* make_weight(const Scope& scope, const Shape& shape, const TokenConv::Options& o) {
  return scope.weight("weight", shape, weight_init(shape, o), Decay::kYes);
}

Parameter* make_bias(const Scope& scope, const Shape& weight, const TokenConv::Options& o) {
  return scope.weight("bias", {weight[0]}, bias_init(weight, o));
}

Shape weight_shape(const Scope& scope, std::int64_t in, std::int64_t out,
                   const TokenConv::Options& o) {
  DTN_CHECK(o.groups > 0 && in % o.groups == 0 && out % o.groups == 0, scope.path, ": ", in,
            " channels and ", out, " outputs are not divisible into ", o.groups, " groups");
  return {out, in / o.groups, o.kernel, o.kernel};
}

// Applies `convolution`, the operation or its reference, to the tokens.
template <class Operation>
Tokens convolved(Context& ctx, const primitive::Conv2d& how, const LinearValues& layer,
                 const Tokens& tokens, Operation&& convolution) {
  DTN_CHECK(tokens.extra == 0, "a convolution cannot take the ", tokens.extra,
            " tokens outside the grid");
  const TokenGrid& grid = tokens.grid;
  const auto [height, width] =
      ops::convolved_grid({grid.height, grid.width}, {layer.weight.dim(2), layer.weight.dim(3)},
                          how.stride, how.padding);
  return {convolution(ctx, tokens.x, grid.height, grid.width, layer.weight, layer.bias, how),
          {height, width}};
}

}  // namespace

TokenConv::TokenConv(const Scope& scope, std::int64_t in, std::int64_t out, const Options& o)
    : weight(make_weight(scope, weight_shape(scope, in, out, o), o)),
      bias(o.bias ? make_bias(scope, weight->shape, o) : nullptr),
      how{{o.stride, o.stride}, {o.padding, o.padding}, o.groups} {}

Tokens TokenConv::forward(Context& ctx, const Tokens& tokens, const LinearValues& values) const {
  return convolved(ctx, how, values, tokens, ops::convolution);
}

Tokens TokenConv::reference(Context& ctx, const Tokens& tokens) const {
  return convolved(ctx, how, values(), tokens, ops::reference::convolution);
}

Tokens image_as_tokens(Context& ctx, const Tensor& images) {
  return {ops::image_tokens(ctx, images, ctx.mode.compute), {images.dim(2), images.dim(3)}};
}

}  // namespace dtn
