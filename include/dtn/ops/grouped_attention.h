// Multi-head attention between any two sets of tokens, or inside groups of tokens such as Swin's
// windows, with a learned bias added to the scores.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Position of the heads in the rows of a tensor: head h has columns
// [first + h stride, first + h stride + width).
struct HeadColumns {
  std::int64_t first, stride, width;
};

// A partition of tokens into G groups of n. Attention happens inside a group. All tensors are on
// the device of the tokens. A model makes its groups once and keeps them.
struct TokenGroups {
  Tensor tokens;  // [G, n] int64: index of the i-th token of group g
  Tensor places;  // [G n] int64: g n + i of every token, the inverse of `tokens`
  // [G, n] float32: region of each token. The score of two tokens with different regions gets
  // kRegionPenalty. Undefined: no regions.
  Tensor regions;

  std::int64_t count() const { return tokens.dim(0); }
  std::int64_t size() const { return tokens.dim(1); }
  bool has_regions() const { return regions.defined(); }

  // Makes `groups` groups from a list of tokens, and from a region for each or no regions. Throws
  // Error if a token is missing or listed twice.
  static std::shared_ptr<const TokenGroups> make(std::span<const std::int64_t> tokens,
                                                 std::span<const std::int64_t> regions,
                                                 std::int64_t groups, Device device);
};

// Added to scores between different regions of a group: finite, as in Swin.
inline constexpr double kRegionPenalty = -100;

// Heads, scale and groups of grouped_attention().
struct GroupedAttention {
  std::int64_t heads;                         // H
  HeadColumns q;                              // in `queries`, D_k wide
  HeadColumns k, v;                           // in `keys`, D_k and D_v wide
  double scale;                               // usually 1 / sqrt(D_k)
  std::shared_ptr<const TokenGroups> groups;  // null: all tokens are one group
};

// softmax(scale q k^T + bias + region penalty) v for each head: queries [B, Q, *], keys
// [B, S, *] -> [B, Q, H D_v], the heads one after the other. Both inputs may be the same Variable,
// which then gets one gradient. Columns outside all heads get the gradient 0.
// bias [H, queries, keys] of a group, or undefined, in the accumulator type; the same for all
// samples and groups. With groups Q == S, and both sides are grouped alike. Never allocates the
// scores of all heads. Throws Error if shapes or types do not match.
Variable grouped_attention(Context&, const Variable& queries, const Variable& keys,
                           const Variable& bias, const GroupedAttention& how);

// The attention weights of grouped_attention(), for inspection: [B, H, Q, S], or with G groups
// [B G, H, Q / G, S / G]. float32 or wider.
Variable grouped_attention_weights(Context&, const Variable& queries, const Variable& keys,
                                   const Variable& bias, const GroupedAttention& how);

namespace reference {
Variable grouped_attention(Context&, const Variable& queries, const Variable& keys,
                           const Variable& bias, const GroupedAttention& how);
}  // namespace reference
}  // namespace dtn::ops
