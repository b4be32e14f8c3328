// Parts of the attention references: dense matrices of weights, and masks of pads.
#pragma once

#include "dtn/autograd/context.h"
#include "dtn/ops/padding.h"
#include "kernels/attention/attention_dropout.h"
#include "ops/host_constant.h"

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
inline constexpr float kUnseen = -1e30f;
// Returns a constant whose elements are value(a, b, c, d) of their four indices.
template <class F>
Variable constant_from(const Shape& shape, DType dtype, Device device, F&& value) {
  return Variable(host_constant(shape, dtype, device, [&](std::int64_t i) {
    const std::int64_t row = i / shape[3], matrix = row / shape[2];
    return value(matrix / shape[1], matrix % shape[1], row % shape[2], i % shape[3]);
  }));
}
// kUnseen at pads, else 0: [B, 1, 1, T].
Variable penalty_of_pads(const Tensor& lengths, std::int64_t tokens, DType dtype, Device device);
// Returns the dropout factors of weights [B, H, T, T].
Variable dropout_factors(const AttentionDropout&, const Shape& shape, DType dtype, Device device);
// Relative offsets between the tokens of a grid, [T T, 3] with T = grid_h grid_w: row i T + j is
// (dx, dy, dx^2 + dy^2) from token i to token j. With sign -1 the offsets go from j to i.
Variable relative_offsets(std::int64_t grid_h, std::int64_t grid_w, DType dtype, Device device,
                          int sign = 1);

}  // namespace dtn::ops
