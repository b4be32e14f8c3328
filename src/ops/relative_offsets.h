// Where the tokens of a grid stand relative to each other, for the references that need a dense
// matrix.
#pragma once

#include "dtn/core/tensor.h"

namespace dtn::ops {

// (dx, dy, dx^2 + dy^2) from token i to token j in row i T + j of [T T, 3], T = grid_h grid_w; from
// j to i with sign -1.
Tensor relative_offsets(std::int64_t grid_h, std::int64_t grid_w, DType dtype, Device device,
                        int sign = 1);

}  // namespace dtn::ops
