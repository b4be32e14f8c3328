#include "dtn/nn/patch_merging.h"

#include <utility>

#include "dtn/ops/primitive.h"

namespace dtn {

PatchMerging::PatchMerging(const Scope& scope, std::int64_t channels, std::int64_t out, double eps)
    : norm_(make_layer_norm({4 * channels, 1, eps}, scope / "norm")),
      reduction_(scope / "reduction", 4 * channels, out, {.bias = false}) {}

Tokens PatchMerging::forward(Context& ctx, const Tokens& tokens) const {
  const auto [height, width] = std::pair(tokens.grid.height, tokens.grid.width);
  DTN_CHECK(tokens.extra == 0 && height % 2 == 0 && width % 2 == 0,
            "cannot merge patches of a grid of ", height, " x ", width, " tokens with ",
            tokens.extra,
            " more before it; height and width must be even, and no token outside the grid");
  const std::int64_t batch = tokens.x.dim(0), channels = tokens.x.dim(2);
  const TokenGrid half{height / 2, width / 2};
  Variable x = primitive::reshape(ctx, tokens.x, {batch, half.height, 2, half.width, 2, channels});
  x = primitive::permute(ctx, x, {0, 1, 3, 4, 2, 5});
  x = primitive::reshape(ctx, x, {batch, half.tokens(), 4 * channels});
  return {reduction_.forward(ctx, norm_->forward(ctx, x, half)), half};
}

}  // namespace dtn
