// Parts of the attention references: dense matrices of weights, and masks of pads.
#pragma once

#include "dtn/autograd/context.h"
#include "dtn/ops/padding.h"
#include "kernels/attention/attention_dropout.h"

namespace dtn::ops {

// Throws Error unless lengths are [B] int64 on the device of x [B, T, ...] and, if the host can
// read them, in 0..T. Accepts undefined lengths.
void check_lengths(const char* op, const Tensor& lengths, const Variable& x);
// Returns the lengths as a kernel argument; null if they are undefined.
const std::int64_t* raw_lengths(const Tensor& lengths);

// Returns dropout with probability p in training, else none.
AttentionDropout attention_dropout(const Context&, double p, std::uint32_t stream);

// Returns part `part` of x, [B, T, parts H D], as [B, H, T, D] in the accumulator type.
Variable heads_of(Context&, const Variable& x, std::int64_t heads, std::int64_t parts,
                  std::int64_t part);
// weights [B, H, T, S] and v [B, H, S, D] -> [B, T, H D]
Variable weighted(Context&, const Variable& weights, const Variable& v);
// Returns x [B, T, C] with all pads replaced by 0. No gradient reaches the pads.
Variable without_pads(Context&, const Variable& x, const Tensor& lengths);
// Added to the score of a masked key. Finite, but so large that the key gets no weight.
inline constexpr double kUnseen = -1e30;
// kUnseen at pads, else 0: [B, 1, 1, T].
Variable penalty_of_pads(const Tensor& lengths, std::int64_t tokens, DType dtype, Device device);
// Returns the dropout factors of weights [B, H, T, T].
Variable dropout_factors(const AttentionDropout&, const Shape& shape, DType dtype, Device device);

}  // namespace dtn::ops
