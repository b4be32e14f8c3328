// Gathers of neighbouring tokens and of table rows.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// The 3 x 3 neighbours of every token of a grid, zeros outside it: x [B, grid_h grid_w, C] ->
// [B, grid_h grid_w, 9 C], the neighbours row by row. A linear layer on the result is a 3 x 3
// convolution.
Variable neighbours(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w);

// Row index[r] of the table for every r: table [S, C] (a parameter), index [R] int64 -> [R, C] in
// the type of the table. On the CPU throws Error naming the first index outside [0, S); on a GPU
// the row of such an index is NaN.
Variable take_rows(Context&, const Variable& table, const Tensor& index);

// Weighted sums of a table's rows: table [S, C] (a parameter), weights [R, S] -> [R, C].
Variable mix_rows(Context&, const Variable& table, const Variable& weights);

// The columns of a, then those of b: [..., C], [..., D] -> [..., C + D].
Variable join_columns(Context&, const Variable& a, const Variable& b);

namespace reference {
Variable neighbours(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w);
Variable take_rows(Context&, const Variable& table, const Tensor& index);
Variable mix_rows(Context&, const Variable& table, const Variable& weights);
Variable join_columns(Context&, const Variable& a, const Variable& b);
}  // namespace reference
}  // namespace dtn::ops
