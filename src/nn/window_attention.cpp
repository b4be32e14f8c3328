#include "dtn/nn/window_attention.h"

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

const WindowAttention::Windows& WindowAttention::windows_of(const TokenGrid& grid,
                                                            Device device) const {
  if (!windows_.groups || windows_.grid != grid || windows_.bias_index.device() != device) {
    DTN_CHECK(grid.prefix == 0, "windows cannot cover the ", grid.prefix,
              " tokens before the grid");
    windows_ = {grid,
                shifted_windows(grid.height, grid.width, options_.window, options_.shift, device),
                window_bias_index(options_.window, device)};
  }
  return windows_;
}

Variable WindowAttention::mix(Context& ctx, const Variable& x, const TokenGrid& grid) const {
  const auto& [channels, heads, window, shift, qkv_bias] = options_;
  const Windows& windows = windows_of(grid, x.device());
  const Variable qkv = qkv_.forward(ctx, x);
  const Variable bias =
      bias_from_rows(ctx, bias_table_->variable, windows.bias_index, window * window);
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
