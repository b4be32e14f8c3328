#include "dtn/nn/linear.h"

#include "dtn/ops/linear.h"

namespace dtn {

namespace {

Parameter* make_weight(const Scope& scope, const Shape& shape, const Linear::Options& o) {
  if (o.weight_init) return scope.weight("weight", shape, o.weight_init, Decay::kYes);
  return scope.weight("weight", shape, o.init, Decay::kYes);
}

Parameter* make_bias(const Scope& scope, std::int64_t out, const Linear::Options& o) {
  if (!o.bias) return nullptr;
  if (o.bias_init) return scope.weight("bias", {out}, o.bias_init);
  return scope.weight("bias", {out}, InitKind::kZeros);
}

}  // namespace

Linear::Linear(const Scope& scope, std::int64_t in, std::int64_t out, const Options& options)
    : weight(make_weight(scope, {out, in}, options)), bias(make_bias(scope, out, options)) {}

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
