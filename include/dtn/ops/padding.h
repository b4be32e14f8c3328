// Sequences of different lengths side by side: the tokens that count, without the pads behind them.
#pragma once

#include <span>
#include <vector>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// How many of the T tokens of each sample count, from a tensor [B] int64 on any device; undefined: all
// of them. Throws Error for another shape or type, and where one is outside [1, T].
std::vector<std::int64_t> host_lengths(const Tensor& lengths, std::int64_t batch,
                                       std::int64_t tokens);

// The tokens that count, one sample after the other: x [B, T, C] -> [N, C], N the sum of the
// lengths. The gradient of pads is 0. What they hold is not looked at.
Variable pack_tokens(Context&, const Variable& x, std::span<const std::int64_t> lengths);
// And back, with zeros for pads: x [N, C] -> [B, T, C].
Variable unpack_tokens(Context&, const Variable& x, std::span<const std::int64_t> lengths,
                       std::int64_t tokens);

}  // namespace dtn::ops
