#include "dtn/nn/layer_scale.h"

#include "dtn/nn/initializers.h"
#include "dtn/ops/primitive.h"

namespace dtn {

LayerScale::LayerScale(const Scope& scope, std::int64_t channels, double start)
    : gamma_(scope.weight("gamma", {channels}, constant_value(start))) {}

LinearValues LayerScale::folded_into(Context& ctx, const Linear& layer) const {
  const Variable& gamma = gamma_->variable;
  const Variable rows = primitive::reshape(ctx, gamma, {gamma.dim(0), 1});
  LinearValues folded{primitive::mul(ctx, layer.w(), rows), {}};
  if (layer.bias) folded.bias = primitive::mul(ctx, layer.b(), gamma);
  return folded;
}

}  // namespace dtn
