// The dynamic moment shortcut (Li et al., 2019); see dtn/nn/moments.h.
#include "dtn/nn/moments.h"

#include "dtn/ops/activation.h"
#include "dtn/ops/gather.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "nn/norms/conditional_parts.h"

namespace dtn {

DynamicMomentShortcut::DynamicMomentShortcut(const Scope& scope, const Options& options)
    : options_(options),
      hidden_(scope / "hidden", 9 * 2, options.hidden),
      modulation_(scope / "modulation", 9 * options.hidden, 2 * options.channels) {}

void DynamicMomentShortcut::check(const Variable& x, const TokenGrid& grid, const Variable& mean,
                                  const Variable& std) const {
  check_tokens("moment shortcut", x, grid, options_.channels);
  const Shape wanted{x.dim(0), x.dim(1)};
  DTN_CHECK(mean.shape() == wanted && std.shape() == wanted, "moment shortcut: mean ",
            to_string(mean.shape()), " and std ", to_string(std.shape()), " are not ",
            to_string(wanted), ", the shape that the input ", to_string(x.shape()), " needs");
}

Variable DynamicMomentShortcut::forward(Context& ctx, const Variable& x, const TokenGrid& grid,
                                        const Variable& mean, const Variable& std) const {
  check(x, grid, mean, std);
  auto convolve = [&](const Linear& map, const Variable& v) {
    return map.forward(ctx, ops::neighbours(ctx, v, grid.height, grid.width));
  };
  auto as_column = [&](const Variable& v) {
    return primitive::reshape(ctx, ops::cast(ctx, v, x.dtype()), {x.dim(0), x.dim(1), 1});
  };
  Variable moments = ops::join_columns(ctx, as_column(mean), as_column(std));
  Variable hidden = ops::relu(ctx, convolve(hidden_, moments));
  return ops::modulate(ctx, x, convolve(modulation_, hidden));
}

Variable DynamicMomentShortcut::reference(Context& ctx, const Variable& x, const TokenGrid& grid,
                                          const Variable& mean, const Variable& std) const {
  check(x, grid, mean, std);
  using namespace ops::reference;
  auto convolve = [&](const Linear& map, const Variable& v) {
    return map.reference(ctx, neighbours(ctx, v, grid.height, grid.width));
  };
  auto as_column = [&](const Variable& v) {
    return primitive::reshape(ctx, v, {x.dim(0), x.dim(1), 1});
  };
  Variable moments = join_columns(ctx, as_column(mean), as_column(std));
  return modulate(ctx, x, convolve(modulation_, relu(ctx, convolve(hidden_, moments))));
}

}  // namespace dtn
