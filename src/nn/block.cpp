#include "dtn/nn/block.h"

#include "dtn/ops/linear.h"

namespace dtn {
namespace {

std::unique_ptr<Normalizer> make_norm(const BlockOptions& o, const Scope& scope) {
  return o.norm ? make_normalizer(*o.norm, o.norm_shape, scope)
                : make_layer_norm(o.norm_shape, scope);
}

}  // namespace

Block::Block(const Scope& scope, const BlockOptions& o)
    : norm1_(make_norm(o, scope / "norm1")),
      attention_(scope / "attn", o.attention),
      drop_path1_(scope / "drop_path1", o.drop_path),
      norm2_(make_norm(o, scope / "norm2")),
      mlp_(scope / "mlp", o.mlp),
      drop_path2_(scope / "drop_path2", o.drop_path) {}

void Block::forward(Context& ctx, ResidualStream& stream, const TokenGrid& grid) const {
  attention_branch(ctx, stream, grid);
  mlp_branch(ctx, stream, grid);
}

void Block::forward_checkpointed(Context& ctx, ResidualStream& stream,
                                 const TokenGrid& grid) const {
  stream.set(checkpoint(ctx, stream.sum(ctx), [this, grid](Context& inner, const Variable& x) {
    ResidualStream part(x);
    forward(inner, part, grid);
    return part.sum(inner);
  }));
}

void Block::attention_branch(Context& ctx, ResidualStream& stream, const TokenGrid& grid) const {
  const Variable normed = stream.normalized(ctx, *norm1_, grid);
  const Tensor scale = drop_path1_.scales(ctx, normed);
  const Variable mixed = attention_.mix(ctx, normed, grid);
  const Linear& proj = attention_.projection();
  if (!attention_.dropout().active(ctx) && ResidualStream::product_adds(scale)) {
    stream.set(ops::linear_residual(ctx, mixed, proj.w(), proj.b(), stream.sum(ctx), scale));
  } else {
    stream.add(attention_.dropout().forward(ctx, proj.forward(ctx, mixed)), scale);
  }
}

void Block::mlp_branch(Context& ctx, ResidualStream& stream, const TokenGrid& grid) const {
  const Variable normed = stream.normalized(ctx, *norm2_, grid);
  const Tensor scale = drop_path2_.scales(ctx, normed);
  if (!mlp_.drops(ctx) && ResidualStream::product_adds(scale)) {
    stream.set(mlp_.forward_add(ctx, normed, stream.sum(ctx), scale));
  } else {
    stream.add(mlp_.forward(ctx, normed), scale);
  }
}

}  // namespace dtn
