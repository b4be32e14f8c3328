// Packing and unpacking of padded sequences: removes the pads and restores them.
#pragma once

#include <span>
#include <vector>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Number of valid tokens of each of the B samples, from a tensor [B] int64 on any device.
// Undefined: all T tokens are valid. Throws Error for another shape or type, or if a length is
// outside [1, T].
std::vector<std::int64_t> host_lengths(const Tensor& lengths, std::int64_t batch,
                                       std::int64_t tokens);

// The valid tokens, one sample after the other: x [B, T, C] -> [N, C], where N is the sum of the
// lengths. The gradient of pads is 0. The values of pads are never read.
Variable pack_tokens(Context&, const Variable& x, std::span<const std::int64_t> lengths);
// The inverse, with zeros for pads: x [N, C] -> [B, T, C].
Variable unpack_tokens(Context&, const Variable& x, std::span<const std::int64_t> lengths,
                       std::int64_t tokens);

}  // namespace dtn::ops
