#include "dtn/nn/conv2d.h"

#include <cmath>

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
  return primitive::conv2d(ctx, x, weight->variable, bias ? bias->variable : Variable(), how);
}

CustomInit init_convolution(std::int64_t fan_in) {
  return [fan_in](Tensor& value, std::uint64_t seed, const std::string& name) {
    fill_truncated_normal(value, 1 / std::sqrt(3.0 * static_cast<double>(fan_in)), seed, name);
  };
}

}  // namespace dtn
