#include "dtn/nn/window_attention.h"

#include <algorithm>
#include <cmath>

#include "dtn/nn/observer.h"
#include "dtn/nn/windows.h"
#include "dtn/ops/primitive.h"

namespace dtn {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

// Adds zeros below and to the right of a grid: x [B, T, C].
Variable fill_up(Context& ctx, const Variable& x, const TokenGrid& grid, const TokenGrid& filled) {
  const std::int64_t channels = x.dim(2);
  Variable y = primitive::reshape(ctx, x, {x.dim(0), grid.height, grid.width, channels});
  const std::int64_t right = filled.width - grid.width, below = filled.height - grid.height;
  if (right > 0) y = primitive::pad(ctx, y, 2, 0, right);
  if (below > 0) y = primitive::pad(ctx, y, 1, 0, below);
  return primitive::reshape(ctx, y, {x.dim(0), filled.height * filled.width, channels});
}

// Removes what fill_up() has added.
Variable cut_off(Context& ctx, const Variable& x, const TokenGrid& filled, const TokenGrid& grid) {
  const std::int64_t channels = x.dim(2);
  Variable y = primitive::reshape(ctx, x, {x.dim(0), filled.height, filled.width, channels});
  if (grid.height < filled.height) y = primitive::narrow(ctx, y, 1, 0, grid.height);
  if (grid.width < filled.width) y = primitive::narrow(ctx, y, 2, 0, grid.width);
  return primitive::reshape(ctx, y, {x.dim(0), grid.height * grid.width, channels});
}

}  // namespace

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
  return {};
}

const WindowAttention::Windows& WindowAttention::windows_of(const TokenGrid& grid,
                                                            Device device) const {
  return windows_.at(grid, DType::kInt64, device, [&] {
    DTN_CHECK(grid.prefix == 0, "windows cannot cover the ", grid.prefix,
              " tokens before the grid");
    const std::int64_t side = window_side(grid.height, grid.width, options_.window);
    const std::int64_t shift = std::min(grid.height, grid.width) > side ? options_.shift : 0;
    const TokenGrid filled{round_up(grid.height, side), round_up(grid.width, side)};
    return Windows{side, filled, shifted_windows(filled.height, filled.width, side, shift, device),
                   window_bias_index(side, options_.window, device)};
  });
}

Variable WindowAttention::mix(Context& ctx, const Variable& x, const TokenGrid& grid) const {
  const std::int64_t channels = options_.channels, heads = options_.heads;
  const Windows& windows = windows_of(grid, x.device());
  const bool is_filled = windows.filled == grid;
  const Variable qkv = qkv_.forward(ctx, is_filled ? x : fill_up(ctx, x, grid, windows.filled));
  const Variable bias =
      bias_from_rows(ctx, bias_table_->variable, windows.bias_index, windows.side * windows.side);
  const std::int64_t width = channels / heads;
  const ops::GroupedAttention how{.heads = heads,
                                  .q = {0, width, width},
                                  .k = {channels, width, width},
                                  .v = {2 * channels, width, width},
                                  .scale = 1 / std::sqrt(static_cast<double>(width)),
                                  .groups = windows.groups};
  if (ctx.observer && is_filled) {  // queries of zeros would count in its statistics
    ctx.observer->attention({.queries = qkv.value(),
                             .keys = qkv.value(),
                             .bias = bias.value(),
                             .how = how,
                             .query_grid = grid,
                             .key_grid = grid});
  }
  const Variable y = ops::grouped_attention(ctx, qkv, qkv, bias, how);
  return is_filled ? y : cut_off(ctx, y, windows.filled, grid);
}

}  // namespace dtn
