// Windows of a grid of tokens, and attention biases by relative position.
#pragma once

#include <cstdint>
#include <memory>

#include "dtn/ops/grouped_attention.h"

namespace dtn {

// The windows of Swin (Liu et al., ICCV 2021, Section 3.2) over tokens in raster order, as groups
// of window x window tokens; windows and the tokens inside are in raster order. With a shift the
// grid is rolled first: row i of the rolled grid is row (i + shift) mod grid_h, columns likewise.
// The rows of the rolled grid then have three kinds: those before grid_h - window, those from there
// to grid_h - shift, and the rest, which the roll moved next to unrelated rows. Columns likewise.
// Tokens of different kinds belong to different regions. Without a shift there are no regions.
// Throws Error if the window does not divide the grid, or the shift is not below the window.
std::shared_ptr<const ops::TokenGroups> shifted_windows(std::int64_t grid_h, std::int64_t grid_w,
                                                        std::int64_t window, std::int64_t shift,
                                                        Device device);

// Side of the windows on a grid: `window`, or the grid's shorter side if that is less.
std::int64_t window_side(std::int64_t grid_h, std::int64_t grid_w, std::int64_t window);

// Row of Swin's table [(2 t - 1)^2, H], made for windows of t x t, that holds the bias of a query
// (y, x) and a key (y', x') in a window of w x w, where w is at most t:
//     (y - y' + t - 1) (2 t - 1) + x - x' + t - 1
// Returns [w^4] int64, query by query.
Tensor window_bias_index(std::int64_t window, std::int64_t table_window, Device device);

// Column of LeViT's table [H, grid_h grid_w] (Graham et al., ICCV 2021, Section 4.2) that holds the
// bias of a query (y, x) and a key (y', x'):
//     |stride y - y'| grid_w + |stride x - x'|
// Keys are all tokens of the grid, queries those of every stride-th row and column, starting with
// the first. Returns [queries keys] int64, query by query.
Tensor distance_bias_index(std::int64_t grid_h, std::int64_t grid_w, std::int64_t stride,
                           Device device);

// Biases [H, queries, keys] from a table [R, H] with offsets as rows, as in Swin.
// index [queries keys] int64, on the device of the table.
Variable bias_from_rows(Context&, const Variable& table, const Tensor& index, std::int64_t queries);
// The same from a table [H, R] with offsets as columns, as in LeViT.
Variable bias_from_columns(Context&, const Variable& table, const Tensor& index,
                           std::int64_t queries);

}  // namespace dtn
