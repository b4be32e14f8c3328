#include "dtn/nn/layer_scale.h"

#include "dtn/ops/primitive.h"

namespace dtn {

LayerScale::LayerScale(const Scope& scope, std::int64_t channels, double start)
    : gamma_(scope.weight("gamma", {channels},
                          [start](Tensor& value, std::uint64_t, const std::string&) {
                            value.copy_from(Tensor::full(value.shape(), value.dtype(), start));
                          })) {}

Variable LayerScale::forward(Context& ctx, const Variable& x) const {
  return primitive::cast(ctx, primitive::mul(ctx, primitive::widen(ctx, x), gamma_->variable),
                         x.dtype());
}

}  // namespace dtn
