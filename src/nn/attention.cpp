#include "dtn/nn/attention.h"

#include "dtn/nn/relative_positions.h"
#include "dtn/ops/attention.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/tokens.h"

namespace dtn {

Attention::Attention(const Scope& scope, const Options& o)
    : heads_(o.heads),
      qkv_(scope / "qkv", o.channels, 3 * o.channels, {.bias = o.qkv_bias}),
      position_(o.position ? (scope / "pos_proj")
                                 .weight("weight", {o.heads, 3}, init_local_positions, Decay::kYes)
                           : nullptr),
      proj_(scope / "proj", o.channels, o.channels),
      dropout_(scope / "proj_drop", o.dropout) {}

Variable Attention::mix(Context& ctx, const Variable& x, const TokenGrid& grid) const {
  const Variable qkv = qkv_.forward(ctx, x);
  if (!position_) return ops::attention(ctx, qkv, heads_);
  return ops::attention_on_grid(ctx, qkv, heads_, position_->variable, grid.height, grid.width);
}

Variable Attention::mix_class_token(Context& ctx, const Variable& x) const {
  const std::int64_t c = x.dim(2);
  const auto rows = [&](const Variable& tokens, std::int64_t begin, std::int64_t end) {
    return ops::linear_rows(ctx, tokens, qkv_.w(), qkv_.b(), begin, end);
  };
  const Variable q = rows(ops::class_token_of(ctx, x), 0, c), kv = rows(x, c, 3 * c);
  return ops::query_attention(ctx, q, kv, heads_);
}

}  // namespace dtn
