#include "dtn/nn/mlp.h"

#include "dtn/ops/linear.h"
#include "dtn/ops/primitive.h"
#include "nn/activated.h"

namespace dtn {
namespace {

// Returns the number of channels between the activation and fc2.
std::int64_t width_inside(const Mlp::Options& o) {
  if (o.kind == MlpKind::kPlain) return o.hidden;
  DTN_CHECK(o.hidden % 2 == 0, "a gated MLP needs an even number of hidden channels, not ",
            o.hidden);
  return o.hidden / 2;
}

Linear::Options layer_options(const Mlp::Options& o) {
  return {.init = o.init, .bias_init = o.bias_init};
}

}  // namespace

Mlp::Mlp(const Scope& scope, const Options& o)
    : kind_(o.kind),
      act_(o.act),
      fc1_(scope / "fc1", o.channels, o.hidden, layer_options(o)),
      fc2_(scope / "fc2", width_inside(o), o.channels, layer_options(o)),
      drop1_(scope / "drop1", o.dropout),
      drop2_(scope / "drop2", o.dropout) {}

Variable Mlp::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                      const LinearValues& last) const {
  if (is_fused(ctx)) return forward_add(ctx, x, grid, last, {}, {});
  const Variable h = drop1_.forward(ctx, hidden(ctx, x));
  return drop2_.forward(ctx, ops::linear(ctx, h, last.weight, last.bias));
}

Variable Mlp::hidden(Context& ctx, const Variable& x) const {
  const bool gated = kind_ == MlpKind::kSwigluPacked;
  if (!gated && is_gelu()) return ops::linear_gelu(ctx, x, fc1_.w(), fc1_.b(), gelu_form());
  const Variable z = fc1_.forward(ctx, x);
  if (!gated) return activated(ctx, z);
  const std::int64_t width = z.dim(-1);
  const Variable gate = primitive::narrow(ctx, z, -1, 0, width / 2);
  const Variable value = primitive::narrow(ctx, z, -1, width / 2, width);
  return primitive::mul(ctx, activated(ctx, gate), value);
}

Variable Mlp::activated(Context& ctx, const Variable& z) const {
  return dtn::activated(ctx, z, act_);
}

ops::GeluForm Mlp::gelu_form() const {
  return act_ == MlpActivation::kGeluTanh ? ops::GeluForm::kTanh : ops::GeluForm::kExact;
}

Variable Mlp::forward_add(Context& ctx, const Variable& x, const TokenGrid&,
                          const LinearValues& last, const Variable& residual,
                          const Tensor& scale) const {
  return ops::mlp_residual(ctx, x, fc1_.w(), fc1_.b(), last.weight, last.bias, residual, scale,
                           gelu_form());
}

}  // namespace dtn
