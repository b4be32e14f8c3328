// Multi-head self-attention.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Pads and dropout of attention().
struct AttentionOptions {
  // [B] int64: number of valid tokens of each sample, at its start; the rest are pads. Undefined:
  // all tokens are valid.
  Tensor lengths{};
  // Probability of dropping an attention weight in training, and the random stream of the masks
  // (Scope::random). The kept weights are multiplied by 1 / (1 - dropout). The mask depends on
  // (seed, stream, step, sample, head, query, key).
  double dropout = 0;
  std::uint32_t stream = 0;
};

// softmax(q k^T / sqrt(D)) v for each head. qkv [B, T, 3 H D] in the order of timm's qkv
// projection: q of all heads, then k, then v. Returns [B, T, H D]. Never allocates the T x T scores
// of all heads. Values of pads affect no output; the outputs and gradients of pads are 0. The
// result and the run time of a sample depend on its length, not on T. Throws Error if lengths do
// not match qkv.
Variable attention(Context&, const Variable& qkv, std::int64_t heads,
                   const AttentionOptions& options = {});

// attention() over the T = grid_h grid_w tokens of a grid in raster order, with a positional bias
// (Eq. 6 of the DTN paper). For a key dx columns and dy rows after the query, it adds to the scaled
// score
//     a_d (dx^2 + dy^2) + a_x dx + a_y dy
// pos_weight [H, 3], accumulator type: a_x, a_y, a_d of every head.
Variable attention_on_grid(Context&, const Variable& qkv, std::int64_t heads,
                           const Variable& pos_weight, std::int64_t grid_h, std::int64_t grid_w);

// attention() for a few queries, such as a class token: q [B, Q, H D], kv [B, T, 2 H D] with the
// keys of all heads, then the values. Returns [B, Q, H D].
Variable query_attention(Context&, const Variable& q, const Variable& kv, std::int64_t heads);

namespace reference {
Variable attention(Context&, const Variable& qkv, std::int64_t heads,
                   const AttentionOptions& options = {});
Variable attention_on_grid(Context&, const Variable& qkv, std::int64_t heads,
                           const Variable& pos_weight, std::int64_t grid_h, std::int64_t grid_w);
Variable query_attention(Context&, const Variable& q, const Variable& kv, std::int64_t heads);
}  // namespace reference
}  // namespace dtn::ops
