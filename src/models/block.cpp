#include "models/block.h"

#include "dtn/nn/relative_positions.h"
#include "dtn/ops/attention.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/linear.h"

namespace dtn {
namespace {

struct LinearParameters {
  Parameter *weight, *bias;
};

LinearParameters add_linear(ParameterStore& store, const std::string& name, std::int64_t out,
                            std::int64_t in, bool bias) {
  Parameter* w = store.add(name + ".weight", {out, in}, InitKind::kTruncatedNormal, Decay::kYes);
  Parameter* b = bias ? store.add(name + ".bias", {out}, InitKind::kZeros, Decay::kNo) : nullptr;
  return {w, b};
}

// Whether the product at the end of a branch adds the residual on the way. On the CPU always; a
// CUDA product cannot scale the samples of its result, and leaves both to the next norm.
bool product_adds(const Tensor& scale) { return !scale.defined() || scale.device() == kCpu; }

const Variable& variable_or_none(const Parameter* p) {
  static const Variable none;
  return p ? p->variable : none;
}

}  // namespace

TransformerBlock::TransformerBlock(const ModelConfig& config, int index, ParameterStore& store)
    : index_(index),
      heads_(config.num_heads),
      drop_path_(config.depth > 1 ? config.drop_path * index / (config.depth - 1)
                                  : config.drop_path),
      dropout_(config.dropout) {
  std::string name = cat("blocks.", index);
  NormConfig norm = config.norm;
  NormShape shape{config.embed_dim,
                  config.num_heads,
                  norm.eps.value_or(config.eps),
                  {config.grid(), config.grid()}};
  bool own_norm = index < config.norm_layers();
  auto make_norm = [&](const std::string& which) {
    return own_norm ? make_normalizer(norm, shape, store, name + which)
                    : make_layer_norm({config.embed_dim, config.num_heads, config.eps}, store,
                                      name + which);
  };
  std::int64_t c = config.embed_dim, hidden = config.mlp_dim();
  norm1_ = make_norm(".norm1");
  auto qkv = add_linear(store, name + ".attn.qkv", 3 * c, c, config.qkv_bias);
  if (config.mhsa_position && index < config.grid_blocks()) {
    pos_weight_ = store.add_custom(name + ".attn.pos_proj.weight", {config.num_heads, 3},
                                   Decay::kYes, init_local_positions);
  }
  auto proj = add_linear(store, name + ".attn.proj", c, c, true);
  norm2_ = make_norm(".norm2");
  auto fc1 = add_linear(store, name + ".mlp.fc1", hidden, c, true);
  auto fc2 = add_linear(store, name + ".mlp.fc2", c, hidden, true);
  qkv_weight_ = qkv.weight;
  qkv_bias_ = qkv.bias;
  proj_weight_ = proj.weight;
  proj_bias_ = proj.bias;
  fc1_weight_ = fc1.weight;
  fc1_bias_ = fc1.bias;
  fc2_weight_ = fc2.weight;
  fc2_bias_ = fc2.bias;
}

std::uint32_t TransformerBlock::random_stream(int consumer) const {
  return static_cast<std::uint32_t>(16 + index_ * 8 + consumer);
}

void TransformerBlock::forward(Context& ctx, ResidualStream& stream, const TokenGrid& grid) const {
  attention_branch(ctx, stream, grid);
  mlp_branch(ctx, stream, grid);
}

Tensor TransformerBlock::drop_path_scales(const Context& ctx, const Variable& x,
                                          int consumer) const {
  return ops::drop_path_scales(ctx, x.dim(0), drop_path_, random_stream(consumer), x.dtype(),
                               x.device());
}

void TransformerBlock::attention_branch(Context& ctx, ResidualStream& stream,
                                        const TokenGrid& grid) const {
  Variable normed = stream.normalized(ctx, *norm1_, grid);
  Tensor scale = drop_path_scales(ctx, normed, 0);
  Variable qkv = ops::linear(ctx, normed, qkv_weight_->variable, variable_or_none(qkv_bias_));
  Variable mixed = pos_weight_ ? ops::attention_on_grid(ctx, qkv, heads_, pos_weight_->variable,
                                                        grid.height, grid.width)
                               : ops::attention(ctx, qkv, heads_);
  bool dropout = ctx.training && dropout_ > 0;
  if (!dropout && product_adds(scale)) {
    stream.set(ops::linear_residual(ctx, mixed, proj_weight_->variable, proj_bias_->variable,
                                    stream.settled(ctx), scale));
    return;
  }
  Variable branch = ops::linear(ctx, mixed, proj_weight_->variable, proj_bias_->variable);
  stream.add(ops::dropout(ctx, branch, dropout_, random_stream(2)), scale);
}

void TransformerBlock::mlp_branch(Context& ctx, ResidualStream& stream,
                                  const TokenGrid& grid) const {
  Variable normed = stream.normalized(ctx, *norm2_, grid);
  Tensor scale = drop_path_scales(ctx, normed, 1);
  if (ctx.training && dropout_ > 0) {
    Variable hidden = ops::linear_gelu(ctx, normed, fc1_weight_->variable, fc1_bias_->variable);
    hidden = ops::dropout(ctx, hidden, dropout_, random_stream(3));
    Variable branch = ops::linear(ctx, hidden, fc2_weight_->variable, fc2_bias_->variable);
    stream.add(ops::dropout(ctx, branch, dropout_, random_stream(4)), scale);
    return;
  }
  auto mlp = [&](const Variable& residual, const Tensor& row_scale) {
    return ops::mlp_residual(ctx, normed, fc1_weight_->variable, fc1_bias_->variable,
                             fc2_weight_->variable, fc2_bias_->variable, residual, row_scale);
  };
  if (product_adds(scale)) {
    stream.set(mlp(stream.settled(ctx), scale));
  } else {
    stream.add(mlp({}, {}), scale);
  }
}

}  // namespace dtn
