#include "dtn/nn/mlp.h"

#include "dtn/ops/linear.h"

namespace dtn {

Mlp::Mlp(const Scope& scope, const Options& o)
    : fc1_(scope / "fc1", o.channels, o.hidden),
      fc2_(scope / "fc2", o.hidden, o.channels),
      drop1_(scope / "drop1", o.dropout),
      drop2_(scope / "drop2", o.dropout) {}

Variable Mlp::forward(Context& ctx, const Variable& x) const {
  if (!drops(ctx)) return forward_add(ctx, x, {}, {});
  Variable hidden = drop1_.forward(ctx, ops::linear_gelu(ctx, x, fc1_.w(), fc1_.b()));
  return drop2_.forward(ctx, fc2_.forward(ctx, hidden));
}

Variable Mlp::forward_add(Context& ctx, const Variable& x, const Variable& residual,
                          const Tensor& scale) const {
  return ops::mlp_residual(ctx, x, fc1_.w(), fc1_.b(), fc2_.w(), fc2_.b(), residual, scale);
}

}  // namespace dtn
