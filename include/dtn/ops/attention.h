// Multi-head self-attention.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// softmax(q k^T / sqrt(D)) v per head. qkv [B, T, 3 H D] in the order of timm's qkv projection:
// q of all heads, then k, then v. Returns [B, T, H D]. No T x T tensor of all heads is ever made.
Variable attention(Context&, const Variable& qkv, std::int64_t heads);

namespace reference {
Variable attention(Context&, const Variable& qkv, std::int64_t heads);
}
}  // namespace dtn::ops
