// Relative offsets between the tokens of a grid, for references that need a dense matrix.
#pragma once

#include "dtn/core/tensor.h"

namespace dtn::ops {

// Returns [T T, 3] with T = grid_h grid_w: row i T + j is (dx, dy, dx^2 + dy^2) from token i to
// token j. With sign -1 the offsets go from j to i.
Tensor relative_offsets(std::int64_t grid_h, std::int64_t grid_w, DType dtype, Device device,
                        int sign = 1);

}  // namespace dtn::ops
