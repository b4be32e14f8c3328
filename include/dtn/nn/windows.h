// Windows of a grid of tokens, and biases of attention for where tokens stand relative to each
// other.
#pragma once

#include <cstdint>
#include <memory>

#include "dtn/ops/grouped_attention.h"

namespace dtn {

// The windows of Swin (Liu et al., ICCV 2021, Section 3.2) over tokens in raster order, as groups
// of window x window tokens: windows in raster order, and raster order inside. With a shift the
// grid is rolled first: row i of the rolled grid is row (i + shift) mod grid_h, columns likewise.
// Rows of the rolled grid are then of three kinds, those before grid_h - window, those from there
// to grid_h - shift and the rest, which the roll brought next to others; columns likewise; and
// tokens of different kinds are of different regions. Without a shift there are no regions.
// Throws Error where the window does not divide the grid, or the shift is not below the window.
std::shared_ptr<const ops::TokenGroups> shifted_windows(std::int64_t grid_h, std::int64_t grid_w,
                                                        std::int64_t window, std::int64_t shift,
                                                        Device device);

// Which row of Swin's table [(2 w - 1)^2, H] the bias of a query (y, x) and a key (y', x') of a
// window of w x w is: (y - y' + w - 1) (2 w - 1) + x - x' + w - 1. [w^4] int64, query by query.
Tensor window_bias_index(std::int64_t window, Device device);

// Which column of LeViT's table [H, grid_h grid_w] (Graham et al., ICCV 2021, Section 4.2) the bias
// of a query (y, x) and a key (y', x') is: |stride y - y'| grid_w + |stride x - x'|. Keys are all
// tokens of the grid, queries those in every stride-th row and column of it, from the first on.
// [queries keys] int64, query by query.
Tensor distance_bias_index(std::int64_t grid_h, std::int64_t grid_w, std::int64_t stride,
                           Device device);

// Biases [H, queries, keys] out of a table [R, H] whose rows are offsets, as Swin's, or [H, R], as
// LeViT's. index [queries keys] int64, on the device of the table.
Variable bias_from_rows(Context&, const Variable& table, const Tensor& index, std::int64_t queries);
Variable bias_from_columns(Context&, const Variable& table, const Tensor& index,
                           std::int64_t queries);

}  // namespace dtn
