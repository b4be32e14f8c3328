#include "dtn/nn/linear.h"

#include "dtn/ops/linear.h"

namespace dtn {

Linear::Linear(const Scope& scope, std::int64_t in, std::int64_t out, const Options& options)
    : weight(scope.weight("weight", {out, in}, options.init, Decay::kYes)),
      bias(options.bias ? scope.weight("bias", {out}, InitKind::kZeros) : nullptr) {}

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
