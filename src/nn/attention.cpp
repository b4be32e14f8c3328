#include "dtn/nn/attention.h"

#include <cmath>

#include "dtn/nn/positions.h"
#include "dtn/ops/attention.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/tokens.h"

namespace dtn {
namespace {

std::unique_ptr<Normalizer> make_head_norm(const Attention::Options& o, const Scope& scope) {
  if (!o.qk_norm) return nullptr;
  return make_layer_norm({o.channels / o.heads, 1, *o.qk_norm}, scope);
}

// Normalizes each head separately: x [B, T, C] with C = H D; `norm` works on D channels.
Variable of_heads(Context& ctx, Normalizer& norm, const Variable& x, std::int64_t heads) {
  const std::int64_t tokens = x.dim(0) * x.dim(1), d = x.dim(2) / heads;
  const Variable rows = primitive::reshape(ctx, x, {tokens * heads, d});
  return primitive::reshape(ctx, norm.forward(ctx, rows, {1, 1}), x.shape());
}

}  // namespace

Attention::Attention(const Scope& scope, const Options& o)
    : heads_(o.heads),
      qkv_(scope / "qkv", o.channels, 3 * o.channels, {.bias = o.qkv_bias}),
      q_norm_(make_head_norm(o, scope / "q_norm")),
      k_norm_(make_head_norm(o, scope / "k_norm")),
      position_(o.position ? (scope / "pos_proj")
                                 .weight("weight", {o.heads, 3}, init_local_positions, Decay::kYes)
                           : nullptr),
      proj_(scope / "proj", o.channels, o.channels),
      dropout_(scope / "proj_drop", o.dropout) {}

Variable Attention::queries_keys_values(Context& ctx, const Variable& x) const {
  Variable qkv = qkv_.forward(ctx, x);
  if (!q_norm_) return qkv;
  const std::int64_t c = x.dim(2);
  const Variable q = of_heads(ctx, *q_norm_, primitive::narrow(ctx, qkv, 2, 0, c), heads_);
  return primitive::concat(ctx, q,
                           with_normalized_keys(ctx, primitive::narrow(ctx, qkv, 2, c, 3 * c)), 2);
}

Variable Attention::mix(Context& ctx, const Variable& x, const TokenGrid& grid) const {
  const Variable qkv = queries_keys_values(ctx, x);
  if (ctx.observer) ctx.observer->attention(view_of(qkv, grid));
  if (!position_) return ops::attention(ctx, qkv, heads_);
  return ops::attention_on_grid(ctx, qkv, heads_, position_->variable, grid.height, grid.width);
}

AttentionView Attention::view_of(const Variable& qkv, const TokenGrid& grid) const {
  const std::int64_t channels = qkv.dim(2) / 3, width = channels / heads_;
  Tensor bias;
  if (position_) {
    Context plain;
    const Variable& weights = position_->variable;
    const Tensor offsets =
        offsets_to_cells(grid.height, grid.width, 1, weights.dtype(), weights.device());
    bias = bias_from_offsets(plain, weights, offsets, grid.tokens()).value();
  }
  return {.queries = qkv.value(),
          .keys = qkv.value(),
          .bias = bias,
          .how = {.heads = heads_,
                  .q = {0, width, width},
                  .k = {channels, width, width},
                  .v = {2 * channels, width, width},
                  .scale = 1 / std::sqrt(static_cast<double>(width)),
                  .groups = nullptr},
          .query_grid = grid,
          .key_grid = grid};
}

Variable Attention::with_normalized_keys(Context& ctx, const Variable& kv) const {
  const std::int64_t c = kv.dim(2) / 2;
  const Variable k = of_heads(ctx, *k_norm_, primitive::narrow(ctx, kv, 2, 0, c), heads_);
  return primitive::concat(ctx, k, primitive::narrow(ctx, kv, 2, c, 2 * c), 2);
}

Variable Attention::mix_first(Context& ctx, const Variable& x, std::int64_t count) const {
  const std::int64_t c = x.dim(2);
  const auto rows = [&](const Variable& tokens, std::int64_t begin, std::int64_t end) {
    return ops::linear_rows(ctx, tokens, qkv_.w(), qkv_.b(), begin, end);
  };
  Variable q = rows(ops::first_tokens(ctx, x, count), 0, c), kv = rows(x, c, 3 * c);
  if (q_norm_) {
    q = of_heads(ctx, *q_norm_, q, heads_);
    kv = with_normalized_keys(ctx, kv);
  }
  return ops::query_attention(ctx, q, kv, heads_);
}

}  // namespace dtn
