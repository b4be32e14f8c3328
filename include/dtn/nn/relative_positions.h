// Weights that look at where tokens stand relative to each other: their start, and a bias of
// attention from them.
#pragma once

#include <cstdint>
#include <string>

#include "dtn/autograd/context.h"
#include "dtn/core/tensor.h"

namespace dtn {

// Eq. 7 of Dynamic Token Normalization (Shao et al., ICLR 2022) for weights [H, 3] of the offsets
// (x, y, distance^2) from one token to another: head k j + i, with k = floor(sqrt(H)), attends
// around the offset (j, i) - (k - 1) / 2; the heads that are left over draw a truncated normal.
// A CustomInit (parameters.h), float32 or float64.
void init_local_positions(Tensor& value, std::uint64_t seed, const std::string& name);

// The same for sequences, all heads in a row: head h attends around the offset (h - (H - 1) / 2, 0).
void init_line_positions(Tensor& value, std::uint64_t seed, const std::string& name);

// The offsets (dx, dy, dx^2 + dy^2) [queries keys, 3], query by query, from the tokens of a grid to
// the cells of the coarser map whose cell (u, v) is made of r x r of them, and stands in their
// middle, row r u + (r - 1) / 2 and column r v + (r - 1) / 2. Rows and columns that r does not
// divide are in no cell. float32 or float64.
Tensor offsets_to_cells(std::int64_t grid_h, std::int64_t grid_w, std::int64_t r, DType dtype,
                        Device device);

// Biases [H, queries, keys] for ops::grouped_attention: the products of weights [H, 3] and offsets
// as above (Eq. 6 of Dynamic Token Normalization), in the type of both.
Variable bias_from_offsets(Context&, const Variable& weights, const Tensor& offsets,
                           std::int64_t queries);

}  // namespace dtn
