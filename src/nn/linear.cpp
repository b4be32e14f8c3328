#include "dtn/nn/linear.h"

#include "dtn/ops/linear.h"

namespace dtn {

Linear::Linear(const Scope& scope, std::int64_t in, std::int64_t out, const Options& o)
    : weight(scope.weight("weight", {out, in}, o.init, Decay::kYes)),
      bias(o.bias ? scope.weight("bias", {out}, o.bias_init) : nullptr) {}

Variable Linear::forward(Context& ctx, const Variable& x) const {
  return ops::linear(ctx, x, w(), b());
}

Variable Linear::reference(Context& ctx, const Variable& x) const {
  return ops::reference::linear(ctx, x, w(), b());
}

const Variable& Linear::b() const {
  static const Variable none;
  return bias ? bias->variable : none;
}

}  // namespace dtn
