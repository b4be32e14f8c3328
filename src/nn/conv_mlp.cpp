#include "dtn/nn/conv_mlp.h"

#include "dtn/ops/linear.h"

namespace dtn {

ConvMlp::ConvMlp(const Scope& scope, const Options& o)
    : fc1_(scope / "fc1", o.channels, o.hidden),
      conv_(scope / "dwconv" / "dwconv", o.hidden, o.hidden,
            {.kernel = 3, .padding = 1, .groups = o.hidden, .init = ConvInit::kFanOut}),
      fc2_(scope / "fc2", o.hidden, o.channels) {}

Variable ConvMlp::hidden(Context& ctx, const Variable& x, const TokenGrid& grid) const {
  const Tokens tokens{
      fc1_.forward(ctx, x), {grid.height, grid.width}, static_cast<int>(grid.prefix)};
  return ops::gelu(ctx, conv_.forward(ctx, tokens).x);
}

Variable ConvMlp::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                          const LinearValues& last) const {
  return ops::linear(ctx, hidden(ctx, x, grid), last.weight, last.bias);
}

Variable ConvMlp::forward_add(Context& ctx, const Variable& x, const TokenGrid& grid,
                              const LinearValues& last, const Variable& residual,
                              const Tensor& scale) const {
  return ops::linear_residual(ctx, hidden(ctx, x, grid), last.weight, last.bias, residual, scale);
}

}  // namespace dtn
