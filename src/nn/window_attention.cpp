#include "dtn/nn/window_attention.h"

#include <algorithm>
#include <cmath>

#include "dtn/nn/observer.h"
#include "dtn/nn/windows.h"

namespace dtn {

WindowAttention::WindowAttention(const Scope& scope, const Options& o)
    : options_(o),
      qkv_(scope / "qkv", o.channels, 3 * o.channels, {.bias = o.qkv_bias}),
      bias_table_(scope.weight("relative_position_bias_table",
                               {(2 * o.window - 1) * (2 * o.window - 1), o.heads},
                               InitKind::kTruncatedNormal)),
      proj_(scope / "proj", o.channels, o.channels) {
  bias_table_->positions = {PositionKind::kOffsets, o.window, o.window};
}

std::string WindowAttention::grid_problem(const TokenGrid& grid) const {
  if (grid.prefix > 0) return cat("windows cannot cover ", grid.prefix, " tokens before the grid");
  const std::int64_t side = window_side(grid.height, grid.width, options_.window);
  if (side > 0 && grid.height % side == 0 && grid.width % side == 0) return {};
  return cat("windows of ", side, " x ", side, " tokens do not fill a grid of ", grid.height, " x ",
             grid.width);
}

const WindowAttention::Windows& WindowAttention::windows_of(const TokenGrid& grid,
                                                            Device device) const {
  return windows_.at(grid, DType::kInt64, device, [&] {
    DTN_CHECK(grid.prefix == 0, "windows cannot cover the ", grid.prefix,
              " tokens before the grid");
    const std::int64_t side = window_side(grid.height, grid.width, options_.window);
    const std::int64_t shift = std::min(grid.height, grid.width) > side ? options_.shift : 0;
    return Windows{side, shifted_windows(grid.height, grid.width, side, shift, device),
                   window_bias_index(side, options_.window, device)};
  });
}

Variable WindowAttention::mix(Context& ctx, const Variable& x, const TokenGrid& grid) const {
  const std::int64_t channels = options_.channels, heads = options_.heads;
  const Windows& windows = windows_of(grid, x.device());
  const Variable qkv = qkv_.forward(ctx, x);
  const Variable bias =
      bias_from_rows(ctx, bias_table_->variable, windows.bias_index, windows.side * windows.side);
  const std::int64_t width = channels / heads;
  const ops::GroupedAttention how{.heads = heads,
                                  .q = {0, width, width},
                                  .k = {channels, width, width},
                                  .v = {2 * channels, width, width},
                                  .scale = 1 / std::sqrt(static_cast<double>(width)),
                                  .groups = windows.groups};
  if (ctx.observer) {
    ctx.observer->attention({.queries = qkv.value(),
                             .keys = qkv.value(),
                             .bias = bias.value(),
                             .how = how,
                             .query_grid = grid,
                             .key_grid = grid});
  }
  return ops::grouped_attention(ctx, qkv, qkv, bias, how);
}

}  // namespace dtn
