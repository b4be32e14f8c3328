// Multi-head self-attention.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

struct AttentionOptions {
  // [B] int64: how many tokens of each sample count, from the first on; the others are pads.
  // Undefined: all count.
  Tensor lengths{};
  // Probability of leaving out a weight while training, and whose random numbers say which
  // (Scope::random). The others are multiplied by 1 / (1 - dropout). The mask comes from (seed,
  // stream, step, sample, head, query, key).
  double dropout = 0;
  std::uint32_t stream = 0;
};

// softmax(q k^T / sqrt(D)) v per head. qkv [B, T, 3 H D] in the order of timm's qkv projection:
// q of all heads, then k, then v. Returns [B, T, H D]. No T x T tensor of all heads is ever made.
// What a pad holds reaches nothing; its output and its gradient are 0. What becomes of a sample
// depends on its own length and not on T, and so does the time it takes. Throws Error where lengths
// do not fit.
Variable attention(Context&, const Variable& qkv, std::int64_t heads,
                   const AttentionOptions& options = {});

// The same over the T = grid_h grid_w tokens of a grid in raster order, with a bias for where they
// stand (Eq. 6 of the DTN paper): a_d (dx^2 + dy^2) + a_x dx + a_y dy is added to the scaled score
// of a query and a key that lies dx columns and dy rows further. pos_weight [H, 3], accumulator
// type: a_x, a_y, a_d of every head.
Variable attention_on_grid(Context&, const Variable& qkv, std::int64_t heads,
                           const Variable& pos_weight, std::int64_t grid_h, std::int64_t grid_w);

// The same for a few queries alone, such as a class token: q [B, Q, H D], kv [B, T, 2 H D] with the
// keys of all heads, then the values. Returns [B, Q, H D].
Variable query_attention(Context&, const Variable& q, const Variable& kv, std::int64_t heads);

// softmax(q k^T / sqrt(D)), [B, H, T, T] in float32 or wider: how much of each key's value every query
// takes, to be looked at. pos_weight as above, or null; the grid is of no account without it.
Variable attention_weights(Context&, const Variable& qkv, std::int64_t heads,
                           const Variable* pos_weight, std::int64_t grid_h, std::int64_t grid_w);

namespace reference {
Variable attention(Context&, const Variable& qkv, std::int64_t heads,
                   const AttentionOptions& options = {});
Variable attention_on_grid(Context&, const Variable& qkv, std::int64_t heads,
                           const Variable& pos_weight, std::int64_t grid_h, std::int64_t grid_w);
Variable query_attention(Context&, const Variable& q, const Variable& kv, std::int64_t heads);
}  // namespace reference
}  // namespace dtn::ops
