// The start of weights that look at where tokens stand relative to each other.
#pragma once

#include <cstdint>
#include <string>

#include "dtn/core/tensor.h"

namespace dtn {

// Eq. 7 of Dynamic Token Normalization (Shao et al., ICLR 2022) for weights [H, 3] of the offsets
// (x, y, distance^2) from one token to another: head k j + i, with k = floor(sqrt(H)), attends
// around the offset (j, i) - (k - 1) / 2; the heads that are left over draw a truncated normal.
// A CustomInit (parameters.h), float32 or float64.
void init_local_positions(Tensor& value, std::uint64_t seed, const std::string& name);

}  // namespace dtn
