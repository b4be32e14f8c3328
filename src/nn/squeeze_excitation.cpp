#include "dtn/nn/squeeze_excitation.h"

#include "dtn/ops/activation.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"

namespace dtn {
namespace {

constexpr TokenConv::Options kPointwise{.kernel = 1, .init = ConvInit::kFanOut};

}  // namespace

SqueezeExcitation::SqueezeExcitation(const Scope& scope, std::int64_t channels, std::int64_t inside)
    : fc1_(scope / "fc1", channels, inside, kPointwise),
      fc2_(scope / "fc2", inside, channels, kPointwise) {}

Variable SqueezeExcitation::forward(Context& ctx, const Variable& x) const {
  const Variable mean = primitive::reshape(ctx, ops::mean_token(ctx, x), {x.dim(0), 1, x.dim(2)});
  Tokens squeezed = fc1_.forward(ctx, {mean, {1, 1}});
  squeezed.x = ops::relu(ctx, squeezed.x);
  const Variable factors = primitive::sigmoid(ctx, fc2_.forward(ctx, squeezed).x);
  return primitive::mul(ctx, x, factors);
}

}  // namespace dtn
