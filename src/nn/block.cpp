#include "dtn/nn/block.h"

#include "dtn/ops/linear.h"
#include "dtn/ops/tokens.h"

namespace dtn {
namespace {

std::unique_ptr<Normalizer> make_norm(const BlockOptions& o, const Scope& scope) {
  return o.norm ? make_normalizer(*o.norm, o.norm_shape, scope)
                : make_layer_norm(o.norm_shape, scope);
}

std::unique_ptr<BlockAttention> make_attention(const BlockOptions& o, const Scope& scope) {
  if (o.make_attention) return o.make_attention(scope);
  return std::make_unique<Attention>(scope, o.attention);
}

std::unique_ptr<BlockMlp> make_mlp(const BlockOptions& o, const Scope& scope) {
  if (o.make_mlp) return o.make_mlp(scope);
  return std::make_unique<Mlp>(scope, o.mlp);
}

std::optional<LayerScale> make_layer_scale(const BlockOptions& o, const Scope& scope) {
  if (!o.layer_scale) return {};
  return LayerScale(scope, o.norm_shape.channels, *o.layer_scale);
}

LinearValues scaled(Context& ctx, const std::optional<LayerScale>& scale, const Linear& layer) {
  return scale ? scale->folded_into(ctx, layer) : layer.values();
}

}  // namespace

Variable BlockAttention::mix_first(Context&, const Variable&, std::int64_t) const {
  throw Error("this attention cannot compute only the first tokens");
}

Block::Block(const Scope& scope, const BlockOptions& o)
    : path_(scope.path),
      heads_(o.attention.heads),
      norm_heads_(o.norm_shape.heads),
      norm1_(make_norm(o, scope / "norm1")),
      attention_(make_attention(o, scope / "attn")),
      layer_scale1_(make_layer_scale(o, scope / "ls1")),
      drop_path1_(scope / "drop_path1", o.drop_path),
      norm2_(make_norm(o, scope / "norm2")),
      mlp_(make_mlp(o, scope / "mlp")),
      layer_scale2_(make_layer_scale(o, scope / "ls2")),
      drop_path2_(scope / "drop_path2", o.drop_path) {}

void Block::forward(Context& ctx, ResidualStream& stream, const TokenGrid& grid) const {
  if (ctx.observer) ctx.observer->begin_layer(stream.sum(ctx).value(), grid);
  attention_branch(ctx, stream, grid);
  mlp_branch(ctx, stream, grid);
  if (ctx.observer) ctx.observer->end_layer(stream.sum(ctx).value(), grid);
}

std::string Block::grid_problem(const TokenGrid& grid) const {
  for (std::string problem : {norm1_->grid_problem(grid), attention_->grid_problem(grid)}) {
    if (!problem.empty()) return problem;
  }
  return {};
}

LayerInfo Block::info() const {
  const std::string norm1 = path_ + ".norm1", norm2 = path_ + ".norm2";
  return {.paths = {path_},
          .heads = heads_,
          .norms = {{norm1, norm_heads_, norm1_.get()}, {norm2, norm_heads_, norm2_.get()}},
          .attention = {path_ + ".attn"},
          .mlp = {path_ + ".mlp"}};
}

void Block::forward_first(Context& given, ResidualStream& stream, const TokenGrid& grid,
                          std::int64_t count) const {
  Context ctx = given;
  ctx.observer = nullptr;
  DTN_CHECK(
      has_first_path(),
      "this block mixes tokens after its attention, so it cannot compute only the first tokens");
  const Variable normed = stream.normalized(ctx, *norm1_, grid);
  stream.set(ops::first_tokens(ctx, stream.sum(ctx), count));
  project(ctx, stream, attention_->mix_first(ctx, normed, count), grid);
  mlp_branch(ctx, stream, {0, 0, count});
}

Variable Block::normalized(Context& ctx, ResidualStream& stream, Normalizer& norm,
                           const TokenGrid& grid) const {
  Variable y = stream.normalized(ctx, norm, grid);
  if (ctx.observer) ctx.observer->normalized(norm, stream.sum(ctx).value(), y.value(), grid);
  return y;
}

void Block::attention_branch(Context& ctx, ResidualStream& stream, const TokenGrid& grid) const {
  const Variable normed = normalized(ctx, stream, *norm1_, grid);
  project(ctx, stream, attention_->mix(ctx, normed, grid), grid);
}

void Block::project(Context& ctx, ResidualStream& stream, const Variable& mixed,
                    const TokenGrid& grid) const {
  const Tensor scale = drop_path1_.scales(ctx, mixed);
  const Linear* projection = attention_->projection();
  const Dropout* dropout = attention_->dropout();
  const bool drops = dropout && dropout->active(ctx);
  if (!projection) {
    if (ctx.observer) {
      ctx.observer->branch(Observer::Branch::kAttention, mixed.value(), grid);
    }
    return stream.add(drops ? dropout->forward(ctx, mixed) : mixed, scale);
  }
  const auto [weight, bias] = scaled(ctx, layer_scale1_, *projection);
  if (ctx.observer) {
    Context aside = unseen(ctx);
    const Variable branch = ops::linear(aside, mixed, weight, bias);
    ctx.observer->branch(Observer::Branch::kAttention, branch.value(), grid);
  }
  if (!drops && ResidualStream::product_adds(scale)) {
    stream.set(ops::linear_residual(ctx, mixed, weight, bias, stream.sum(ctx), scale));
  } else {
    const Variable branch = ops::linear(ctx, mixed, weight, bias);
    stream.add(drops ? dropout->forward(ctx, branch) : branch, scale);
  }
}

void Block::mlp_branch(Context& ctx, ResidualStream& stream, const TokenGrid& grid) const {
  const Variable normed = normalized(ctx, stream, *norm2_, grid);
  const Tensor scale = drop_path2_.scales(ctx, normed);
  const LinearValues last = scaled(ctx, layer_scale2_, mlp_->last());
  if (ctx.observer) {
    Context aside = unseen(ctx);
    const Variable branch = mlp_->forward(aside, normed, grid, last);
    ctx.observer->branch(Observer::Branch::kMlp, branch.value(), grid);
  }
  if (mlp_->is_fused(ctx) && ResidualStream::product_adds(scale)) {
    stream.set(mlp_->forward_add(ctx, normed, grid, last, stream.sum(ctx), scale));
  } else {
    stream.add(mlp_->forward(ctx, normed, grid, last), scale);
  }
}

}  // namespace dtn
