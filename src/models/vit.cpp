#include "dtn/models/vit.h"

#include "dtn/ops/tokens.h"

namespace dtn {
namespace {

const ModelConfig& checked(const ModelConfig& c) {
  auto require = [](bool ok, const auto&... message) {
    if (!ok) throw ConfigError(cat(message...));
  };
  require(c.patch_size > 0 && c.image_size % c.patch_size == 0, "model.image_size ", c.image_size,
          " is not a multiple of model.patch_size ", c.patch_size);
  require(c.num_heads > 0 && c.embed_dim % c.num_heads == 0, "model.embed_dim ", c.embed_dim,
          " is not a multiple of model.num_heads ", c.num_heads);
  require(c.norm_layers() <= c.depth, "model.norm.layers ", c.norm_layers(),
          " exceeds model.depth ", c.depth);
  require(!c.mhsa_position || c.grid_blocks() > 0,
          "model.mhsa_position: the class token joins before the first block");
  return c;
}

Shape positions_shape(const ModelConfig& c) {
  const bool of_class_token = c.has_class_token() && c.pos_embed == PosEmbed::kAll;
  return {1, c.num_patches() + of_class_token, c.embed_dim};
}

BlockOptions block_options(const ModelConfig& c, int index) {
  BlockOptions o;
  o.attention = {.channels = c.embed_dim,
                 .heads = c.num_heads,
                 .qkv_bias = c.qkv_bias,
                 .position = c.mhsa_position && index < c.grid_blocks(),
                 .dropout = c.dropout};
  o.mlp = {.channels = c.embed_dim, .hidden = c.mlp_dim(), .dropout = c.dropout};
  o.norm_shape = {c.embed_dim, c.num_heads, c.eps, {c.grid(), c.grid()}};
  if (index < c.norm_layers()) {
    o.norm = c.norm;
    o.norm_shape.eps = c.norm.eps.value_or(c.eps);
  }
  o.drop_path = c.depth > 1 ? c.drop_path * index / (c.depth - 1) : c.drop_path;
  return o;
}

std::vector<Block> make_blocks(const Scope& scope, const ModelConfig& c) {
  std::vector<Block> blocks;
  for (int i = 0; i < c.depth; ++i) blocks.emplace_back(scope / i, block_options(c, i));
  return blocks;
}

}  // namespace

VisionTransformer::VisionTransformer(const Scope& scope, const ModelConfig& config)
    : config_(checked(config)),
      class_token_(config.has_class_token() ? scope.weight("cls_token", {1, 1, config.embed_dim},
                                                           InitKind::kTruncatedNormal)
                                            : nullptr),
      positions_(scope.weight("pos_embed", positions_shape(config), InitKind::kTruncatedNormal)),
      patch_embed_(
          scope / "patch_embed",
          {.channels = config.channels, .patch = config.patch_size, .width = config.embed_dim}),
      position_dropout_(scope / "pos_drop", config.dropout),
      blocks_(make_blocks(scope / "blocks", config)),
      norm_(make_layer_norm({config.embed_dim, config.num_heads, config.eps}, scope / "norm")) {}

std::vector<FieldSpec> VisionTransformer::inputs() const {
  return {{"image", {config_.channels, config_.image_size, config_.image_size}}};
}

std::vector<StageShape> VisionTransformer::stages() const {
  return {{config_.embed_dim, config_.patch_size}};
}

bool VisionTransformer::ends_in_class_token() const {
  return config_.has_class_token() && config_.grid_blocks() < config_.depth &&
         blocks_.back().has_class_token_path();
}

Features VisionTransformer::forward(Context& ctx, const Fields& fields) {
  Tokens tokens = run_blocks(ctx, fields, false);
  tokens.x = norm_->forward(ctx, tokens.x, tokens.arrangement());
  return {std::move(tokens)};
}

Variable VisionTransformer::pooled(Context& ctx, const Fields& fields) {
  const Tokens tokens = run_blocks(ctx, fields, ctx.mode.skip_unread && ends_in_class_token());
  if (config_.has_class_token()) {
    // The last norm works on single tokens, so only the one that is used needs it.
    return norm_->forward(ctx, ops::first_token(ctx, tokens.x), {1, 1});
  }
  return ops::mean_token(ctx, norm_->forward(ctx, tokens.x, tokens.arrangement()));
}

Tokens VisionTransformer::embed(Context& ctx, const Fields& fields) const {
  const Tensor& images = fields.at("image");
  const ModelConfig& c = config_;
  DTN_CHECK(images.rank() == 4 && images.dim(2) == c.image_size && images.dim(3) == c.image_size,
            "images ", to_string(images.shape()), " are not [B, ", c.channels, ", ", c.image_size,
            ", ", c.image_size, "]");
  Tokens tokens = patch_embed_.forward(ctx, images);
  if (class_token_ && c.pos_embed == PosEmbed::kAll) join_class_token(ctx, tokens);
  tokens.x = ops::add_positions(ctx, tokens.x, positions_->variable);
  tokens.x = position_dropout_.forward(ctx, tokens.x);
  return tokens;
}

void VisionTransformer::join_class_token(Context& ctx, Tokens& tokens) const {
  tokens.x = ops::prepend_class_token(ctx, tokens.x, class_token_->variable);
  tokens.extra = 1;
}

Tokens VisionTransformer::run_blocks(Context& ctx, const Fields& fields,
                                     bool class_token_alone) const {
  Tokens tokens = embed(ctx, fields);
  ResidualStream stream(tokens.x);
  const auto join = [&] {
    tokens.x = stream.sum(ctx);
    join_class_token(ctx, tokens);
    stream = ResidualStream(tokens.x);
  };
  for (int i = 0; i < config_.depth; ++i) {
    if (class_token_ && tokens.extra == 0 && i == config_.class_token_at) join();
    const Block& block = blocks_[static_cast<std::size_t>(i)];
    const bool alone = class_token_alone && i + 1 == config_.depth;
    stream.run(
        ctx, [&block, alone, grid = tokens.arrangement()](Context& inner, ResidualStream& part) {
          alone ? block.forward_class_token(inner, part, grid) : block.forward(inner, part, grid);
        });
  }
  if (class_token_ && tokens.extra == 0) join();
  tokens.x = stream.sum(ctx);
  return tokens;
}

}  // namespace dtn
