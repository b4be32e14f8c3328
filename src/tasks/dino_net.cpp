#include "tasks/dino_net.h"

#include <cmath>

#include "dtn/nn/initializers.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/norm.h"
#include "dtn/tasks/registries.h"

namespace dtn {
namespace {

Scope root_of(ParameterStore& store, const TaskSetup& setup) {
  return {store, "", &setup.registries.norms};
}

}  // namespace

DinoHead::DinoHead(const Scope& scope, std::int64_t channels, const DinoConfig& config)
    : in_(scope / "mlp" / 0, channels, config.hidden_dim),
      hidden_(scope / "mlp" / 2, config.hidden_dim, config.hidden_dim),
      out_(scope / "mlp" / 4, config.hidden_dim, config.bottleneck_dim),
      gain_(scope.weight("last_layer.weight_g", {config.out_dim, 1}, InitKind::kOnes)),
      direction_(scope.weight(
          "last_layer.weight_v", {config.out_dim, config.bottleneck_dim},
          uniform_within(1 / std::sqrt(static_cast<double>(config.bottleneck_dim))))) {}

Variable DinoHead::raw_logits(Context& ctx, const Variable& x) const {
  const Variable first = ops::linear_gelu(ctx, x, in_.w(), in_.b());
  const Variable second = ops::linear_gelu(ctx, first, hidden_.w(), hidden_.b());
  const Variable unit = ops::l2_normalize(ctx, out_.forward(ctx, second));
  return ops::linear(ctx, unit, direction(), Variable());
}

DinoNet::DinoNet(const TaskSetup& setup, const ModelConfig& model)
    : backbone(
          setup.registries.models.at(model.family).make(root_of(store, setup) / "backbone", model)),
      head(root_of(store, setup) / "head", backbone->stages().back().channels, setup.config.dino) {
  // Unlike classification, positions, tokens and DTN's pos_proj.weight decay, too.
  for (Parameter& p : store.parameters()) {
    p.decay = p.shape.rank() > 1 ? Decay::kYes : Decay::kNo;
    p.head = p.name.starts_with("head.");
  }
}

}  // namespace dtn
