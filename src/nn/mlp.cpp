#include "dtn/nn/mlp.h"

#include "dtn/ops/activation.h"
#include "dtn/ops/linear.h"

namespace dtn {

Mlp::Mlp(const Scope& scope, const Options& o)
    : act_(o.act),
      fc1_(scope / "fc1", o.channels, o.hidden),
      fc2_(scope / "fc2", o.hidden, o.channels),
      drop1_(scope / "drop1", o.dropout),
      drop2_(scope / "drop2", o.dropout) {}

Variable Mlp::forward(Context& ctx, const Variable& x, const LinearValues& last) const {
  if (is_fused(ctx)) return forward_add(ctx, x, last, {}, {});
  const Variable h = drop1_.forward(ctx, hidden(ctx, x));
  return drop2_.forward(ctx, ops::linear(ctx, h, last.weight, last.bias));
}

Variable Mlp::hidden(Context& ctx, const Variable& x) const {
  if (act_ == MlpActivation::kGelu) return ops::linear_gelu(ctx, x, fc1_.w(), fc1_.b());
  const Variable z = fc1_.forward(ctx, x);
  switch (act_) {
    case MlpActivation::kGeluTanh: return ops::gelu_tanh(ctx, z);
    case MlpActivation::kQuickGelu: return ops::quick_gelu(ctx, z);
    default: return ops::silu(ctx, z);
  }
}

Variable Mlp::forward_add(Context& ctx, const Variable& x, const LinearValues& last,
                          const Variable& residual, const Tensor& scale) const {
  return ops::mlp_residual(ctx, x, fc1_.w(), fc1_.b(), last.weight, last.bias, residual, scale);
}

}  // namespace dtn
