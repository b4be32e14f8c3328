// Multi-head attention between any two sets of tokens, or inside groups of them such as Swin's
// windows, with a learned bias of the scores.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Where the heads stand in the rows of a tensor: head h has columns
// [first + h stride, first + h stride + width).
struct HeadColumns {
  std::int64_t first, stride, width;
};

// Tokens in G groups of n, every token in exactly one; attention happens inside a group. All
// tensors are on the device of the tokens. A model makes its groups once and keeps them.
struct TokenGroups {
  Tensor tokens;  // [G, n] int64: which token is the i-th of group g
  Tensor places;  // [G n] int64: g n + i of every token, the inverse of `tokens`
  // [G, n] float32, or undefined: the score of two tokens whose values differ gets kRegionPenalty.
  Tensor regions;

  std::int64_t count() const { return tokens.dim(0); }
  std::int64_t size() const { return tokens.dim(1); }
  bool has_regions() const { return regions.defined(); }

  // From `groups` rows of tokens, and as many numbers of regions or none. Throws Error where a
  // token is missing, or there twice.
  static std::shared_ptr<const TokenGroups> make(std::span<const std::int64_t> tokens,
                                                 std::span<const std::int64_t> regions,
                                                 std::int64_t groups, Device device);
};

// What keeps the regions of a group apart: finite, as Swin has it.
inline constexpr double kRegionPenalty = -100;

struct GroupedAttention {
  std::int64_t heads;                         // H
  HeadColumns q;                              // in `queries`, D_k wide
  HeadColumns k, v;                           // in `keys`, D_k and D_v wide
  double scale;                               // usually 1 / sqrt(D_k)
  std::shared_ptr<const TokenGroups> groups;  // null: all tokens are one group
};

// softmax(scale q k^T + bias + penalty of the regions) v of every head: queries [B, Q, *], keys
// [B, S, *] -> [B, Q, H D_v], the heads one after the other. Both may be one Variable; then it gets
// one gradient. Columns that are in no head get the gradient 0.
// bias [H, queries, keys] of a group, or undefined: the same for all samples and groups, in the
// accumulator type. With groups Q == S, and both sides are grouped alike. No tensor of scores of
// all heads is ever made. Throws Error where shapes or types do not fit.
Variable grouped_attention(Context&, const Variable& queries, const Variable& keys,
                           const Variable& bias, const GroupedAttention& how);

namespace reference {
Variable grouped_attention(Context&, const Variable& queries, const Variable& keys,
                           const Variable& bias, const GroupedAttention& how);
}  // namespace reference
}  // namespace dtn::ops
