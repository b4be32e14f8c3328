#include "nn/activated.h"

#include "dtn/ops/activation.h"
#include "dtn/ops/linear.h"

namespace dtn {

Variable activated(Context& ctx, const Variable& x, MlpActivation act) {
  switch (act) {
    case MlpActivation::kGelu: return ops::gelu(ctx, x);
    case MlpActivation::kGeluTanh: return ops::gelu_tanh(ctx, x);
    case MlpActivation::kQuickGelu: return ops::quick_gelu(ctx, x);
    case MlpActivation::kRelu: return ops::relu(ctx, x);
    default: return ops::silu(ctx, x);
  }
}

}  // namespace dtn
