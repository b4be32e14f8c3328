// What the references of attention are made of: dense matrices of weights, and which tokens count.
#pragma once

#include "dtn/autograd/context.h"
#include "dtn/ops/padding.h"
#include "kernels/attention/attention_dropout.h"

namespace dtn::ops {

// Throws Error unless lengths are [B] int64 on the device of x [B, T, ...] and, where the host can
// read them, in 0..T. Undefined ones are fine.
void check_lengths(const char* op, const Tensor& lengths, const Variable& x);
// For kernels; null where they are undefined.
const std::int64_t* raw_lengths(const Tensor& lengths);

// Dropout with probability p while the context trains, else none.
AttentionDropout attention_dropout(const Context&, double p, std::uint32_t stream);

// Which of the [B, T, parts, H, D] that x holds, as [B, H, T, D] in the accumulator type.
Variable heads_of(Context&, const Variable& x, std::int64_t heads, std::int64_t parts,
                  std::int64_t part);
// weights [B, H, T, S] and v [B, H, S, D] -> [B, T, H D]
Variable weighted(Context&, const Variable& weights, const Variable& v);
// x [B, T, C] with 0 in place of pads, whatever they hold; no gradient reaches them.
Variable without_pads(Context&, const Variable& x, const Tensor& lengths);
// What is added to the score of a key that is not seen: finite, and yet no weight is left.
inline constexpr double kUnseen = -1e30;
// kUnseen at pads, else 0: [B, 1, 1, T].
Variable penalty_of_pads(const Tensor& lengths, std::int64_t tokens, DType dtype, Device device);
// The factors of dropped weights [B, H, T, T].
Variable dropout_factors(const AttentionDropout&, const Shape& shape, DType dtype, Device device);

}  // namespace dtn::ops
