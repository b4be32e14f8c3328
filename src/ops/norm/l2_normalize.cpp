#include "dtn/ops/norm.h"
#include "dtn/ops/primitive.h"
#include "ops/norm/rms_norm.h"

namespace dtn::ops {
namespace {

constexpr double kMinLength = 1e-12;  // that of torch.nn.functional.normalize

// Gains of 1, with which ScaleNorm is L2 normalization.
Variable unit_gains(const Variable& x) {
  return primitive::full({x.dim(-1)}, accumulator_of(x.dtype()), x.device(), 1);
}

}  // namespace

Variable l2_normalize(Context& ctx, const Variable& x) {
  return rms_norm(ctx, RmsNormKind::kScale, x, unit_gains(x), kMinLength);
}

namespace reference {

Variable l2_normalize(Context& ctx, const Variable& x) {
  return rms_norm(ctx, RmsNormKind::kScale, x, unit_gains(x), kMinLength);
}

}  // namespace reference
}  // namespace dtn::ops
