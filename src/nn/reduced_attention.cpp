#include "dtn/nn/reduced_attention.h"

#include <algorithm>
#include <cmath>

#include "dtn/nn/observer.h"
#include "dtn/nn/positions.h"
#include "dtn/ops/grouped_attention.h"
#include "dtn/ops/tokens.h"

namespace dtn {
namespace {

std::optional<TokenConv> make_reduction(const ReducedAttention::Options& o, const Scope& scope) {
  if (o.reduction == 1) return {};
  return TokenConv(scope, o.channels, o.channels,
                   {.kernel = o.reduction, .stride = o.reduction, .init = o.init});
}

std::unique_ptr<Normalizer> make_norm(const ReducedAttention::Options& o, const Scope& scope) {
  if (o.reduction == 1) return nullptr;
  return make_layer_norm({o.channels, o.heads, kDefaultNormEps}, scope);
}

}  // namespace

ReducedAttention::ReducedAttention(const Scope& scope, const Options& o)
    : channels_(o.channels),
      heads_(o.heads),
      reduction_(o.reduction),
      q_(scope / "q", o.channels, o.channels, {.bias = o.qkv_bias}),
      kv_(scope / "kv", o.channels, 2 * o.channels, {.bias = o.qkv_bias}),
      reduce_(make_reduction(o, scope / "sr")),
      norm_(make_norm(o, scope / "norm")),
      position_(o.position ? (scope / "pos_proj")
                                 .weight("weight", {o.heads, 3}, init_local_positions, Decay::kYes)
                           : nullptr),
      proj_(scope / "proj", o.channels, o.channels) {}

std::string ReducedAttention::grid_problem(const TokenGrid& grid) const {
  if (std::min(grid.height, grid.width) >= reduction_) return {};
  return cat("attention with keys of ", reduction_, " x ", reduction_,
             " tokens needs at least one key, but the grid has ", grid.height, " x ", grid.width,
             " tokens");
}

Variable ReducedAttention::mix(Context& ctx, const Variable& x, const TokenGrid& grid) const {
  const Variable bias = position_ ? bias_of(ctx, grid) : Variable();
  if (!reduce_) return attend(ctx, x, grid, x, grid, bias);
  const Tokens tokens{x, {grid.height, grid.width}, static_cast<int>(grid.prefix)};
  const Tokens coarse = reduce_->forward(ctx, tokens);
  return attend(ctx, x, grid, norm_->forward(ctx, coarse.x, coarse.grid), coarse.grid, bias);
}

Variable ReducedAttention::bias_of(Context& ctx, const TokenGrid& grid) const {
  DTN_CHECK(grid.prefix == 0, "relative positions cannot cover the ", grid.prefix,
            " tokens before the grid");
  const Variable& weights = position_->variable;
  const auto make = [&] {
    return offsets_to_cells(grid.height, grid.width, reduction_, weights.dtype(), weights.device());
  };
  const Tensor& offsets = offsets_.at(grid, weights.dtype(), weights.device(), make);
  return bias_from_offsets(ctx, weights, offsets, grid.tokens());
}

Variable ReducedAttention::mix_first(Context& ctx, const Variable& x, std::int64_t count) const {
  DTN_CHECK(has_first_path(),
            "the first tokens are outside the grid, so they have no coarser grid and no positions");
  const TokenGrid first{0, 0, count}, all{0, 0, x.dim(1)};
  return attend(ctx, ops::first_tokens(ctx, x, count), first, x, all, {});
}

Variable ReducedAttention::attend(Context& ctx, const Variable& queries,
                                  const TokenGrid& query_grid, const Variable& source,
                                  const TokenGrid& source_grid, const Variable& bias) const {
  const std::int64_t width = channels_ / heads_;
  const ops::GroupedAttention how{.heads = heads_,
                                  .q = {0, width, width},
                                  .k = {0, width, width},
                                  .v = {channels_, width, width},
                                  .scale = 1 / std::sqrt(static_cast<double>(width)),
                                  .groups = nullptr};
  const Variable q = q_.forward(ctx, queries), kv = kv_.forward(ctx, source);
  if (ctx.observer) {
    const auto step = static_cast<double>(reduction_);
    ctx.observer->attention({.queries = q.value(),
                             .keys = kv.value(),
                             .bias = bias.defined() ? bias.value() : Tensor(),
                             .how = how,
                             .query_grid = query_grid,
                             .key_grid = source_grid,
                             .key_start = (step - 1) / 2,
                             .key_step = step});
  }
  return ops::grouped_attention(ctx, q, kv, bias, how);
}

}  // namespace dtn
