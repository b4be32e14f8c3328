#include "dtn/models/vit.h"

#include "dtn/ops/tokens.h"
#include "models/block_chain.h"
#include "models/entries.h"
#include "models/image_models.h"
#include "models/vit_check.h"
#include "models/weights/name_maps.h"

namespace dtn {
namespace {

Parameter* make_positions(const Scope& scope, const ModelConfig& c) {
  const int of_prefix = c.pos_embed == PosEmbed::kAll ? c.prefix_tokens() : 0;
  Parameter* p = scope.weight("pos_embed", {1, c.num_patches() + of_prefix, c.embed_dim},
                              InitKind::kTruncatedNormal);
  p->positions = {PositionKind::kTokens, c.grid_h(), c.grid_w(), of_prefix};
  return p;
}

Parameter* make_class_token(const Scope& scope, const ModelConfig& c) {
  if (!c.has_class_token()) return nullptr;
  return scope.weight("cls_token", {1, 1, c.embed_dim}, InitKind::kTruncatedNormal);
}

Parameter* make_distillation_token(const Scope& scope, const ModelConfig& c) {
  if (!c.distilled) return nullptr;
  return scope.weight("dist_token", {1, 1, c.embed_dim}, InitKind::kTruncatedNormal);
}

Parameter* make_registers(const Scope& scope, const ModelConfig& c) {
  if (c.registers == 0) return nullptr;
  constexpr double kStd = 1e-6;  // timm's
  return scope.weight("reg_token", {1, c.registers, c.embed_dim},
                      [](Tensor& value, std::uint64_t seed, const std::string& name) {
                        fill_truncated_normal(value, kStd, seed, name);
                      });
}

NormShape norm_shape(const ModelConfig& c) { return {c.embed_dim, c.num_heads, c.eps}; }

BlockOptions block_options(const ModelConfig& c, int index) {
  BlockOptions o;
  o.attention = {.channels = c.embed_dim,
                 .heads = c.num_heads,
                 .qkv_bias = c.qkv_bias,
                 .position = c.mhsa_position && index < c.grid_blocks(),
                 .dropout = c.dropout,
                 .qk_norm = c.qk_norm ? std::optional(c.eps) : std::nullopt};
  o.mlp = {.channels = c.embed_dim,
           .hidden = c.mlp_dim(),
           .dropout = c.dropout,
           .kind = c.mlp,
           .act = c.act};
  o.layer_scale = c.layer_scale;
  o.norm_shape = {c.embed_dim, c.num_heads, c.eps, {c.grid_h(), c.grid_w()}};
  if (index < c.norm_layers()) {
    o.norm = c.norm.at_stage(0);
    o.norm_shape.eps = c.norm.eps.value_or(c.eps);
  }
  o.drop_path = c.drop_path_of(index);
  return o;
}

std::vector<Block> make_blocks(const Scope& scope, const ModelConfig& c) {
  std::vector<Block> blocks;
  for (int i = 0; i < c.depth; ++i) blocks.emplace_back(scope / i, block_options(c, i));
  return blocks;
}

}  // namespace

VisionTransformer::VisionTransformer(const Scope& scope, const ModelConfig& config)
    : config_(checked(config, check_vit, scope)),
      class_token_(make_class_token(scope, config)),
      distillation_token_(make_distillation_token(scope, config)),
      registers_(make_registers(scope, config)),
      positions_(make_positions(scope, config)),
      patch_embed_(scope / "patch_embed", {.channels = config.channels,
                                           .patch = config.patch_size,
                                           .width = config.embed_dim,
                                           .bias = config.has_patch_bias()}),
      position_dropout_(scope / "pos_drop", config.dropout),
      norm_pre_(config.norm_pre ? make_layer_norm(norm_shape(config), scope / "norm_pre")
                                : nullptr),
      blocks_(make_blocks(scope / "blocks", config)),
      norm_(make_layer_norm(norm_shape(config), scope / (config.fc_norm ? "fc_norm" : "norm"))) {}

std::vector<FieldSpec> VisionTransformer::inputs() const { return image_inputs(config_); }

std::vector<StageShape> VisionTransformer::stages() const {
  return {{config_.embed_dim, config_.patch_size}};
}

std::vector<LayerInfo> VisionTransformer::layers() const { return layers_of(blocks_); }

std::vector<std::unique_ptr<ClassHead>> VisionTransformer::make_heads(const Scope& scope,
                                                                      int classes) const {
  auto heads = Backbone::make_heads(scope, classes);
  if (config_.distilled) {
    heads.push_back(make_linear_head(scope / "head_dist", config_.embed_dim, classes));
  }
  return heads;
}

bool VisionTransformer::ends_in_class_token() const {
  return config_.pool == Pooling::kCls && config_.grid_blocks() < config_.depth &&
         blocks_.back().has_first_path();
}

Features VisionTransformer::forward(Context& ctx, const Fields& fields) {
  Tokens tokens = run_blocks(ctx, fields, false);
  if (!config_.fc_norm) tokens.x = norm_->forward(ctx, tokens.x, tokens.arrangement());
  return {std::move(tokens)};
}

Variable VisionTransformer::pooled(Context& ctx, const Fields& fields) {
  const std::vector<Variable> each = pooled_each(ctx, fields);
  if (each.size() == 1) return each.front();
  return primitive::affine(ctx, primitive::add(ctx, each[0], each[1]), 0.5);
}

// The last norm works on single tokens, so only the pooled tokens need it.
std::vector<Variable> VisionTransformer::pooled_each(Context& ctx, const Fields& fields) {
  const Tokens tokens = run_blocks(ctx, fields, ctx.mode.skip_unread && ends_in_class_token());
  const Variable& x = tokens.x;
  if (config_.distilled) {
    std::vector<Variable> each;
    for (int i = 0; i < pooled_tokens(); ++i) {
      const Variable token = primitive::narrow(ctx, x, 1, i, i + 1);
      each.push_back(
          norm_->forward(ctx, primitive::reshape(ctx, token, {x.dim(0), x.dim(2)}), {1, 1}));
    }
    return each;
  }
  if (config_.pool == Pooling::kCls) {
    return {norm_->forward(ctx, ops::first_token(ctx, x), {1, 1})};
  }
  const Variable patches =
      tokens.extra == 0 ? x : primitive::narrow(ctx, x, 1, tokens.extra, x.dim(1));
  if (config_.fc_norm) return {norm_->forward(ctx, ops::mean_token(ctx, patches), {1, 1})};
  return {ops::mean_token(ctx, norm_->forward(ctx, patches, tokens.grid))};
}

Tokens VisionTransformer::embed(Context& ctx, const Fields& fields) const {
  const ModelConfig& c = config_;
  Tokens tokens = patch_embed_.forward(ctx, image_of(c, fields));
  const bool with_positions = c.pos_embed == PosEmbed::kAll;
  if (with_positions) join_prefix(ctx, tokens);
  tokens.x = ops::add_positions(ctx, tokens.x, positions_->variable);
  tokens.x = position_dropout_.forward(ctx, tokens.x);
  if (!with_positions && joins_first()) join_prefix(ctx, tokens);
  if (norm_pre_) tokens.x = norm_pre_->forward(ctx, tokens.x, tokens.arrangement());
  return tokens;
}

void VisionTransformer::join_prefix(Context& ctx, Tokens& tokens) const {
  // Prepends in reverse order: the class token becomes the first.
  for (const Parameter* part : {registers_, distillation_token_, class_token_}) {
    if (part) tokens.x = ops::prepend_tokens(ctx, tokens.x, part->variable);
  }
  tokens.extra = config_.prefix_tokens();
}

Tokens VisionTransformer::run_blocks(Context& ctx, const Fields& fields, bool pooled_alone) const {
  Tokens tokens = embed(ctx, fields);
  BlockChain chain{.first_tokens = pooled_alone ? pooled_tokens() : 0};
  if (tokens.extra < config_.prefix_tokens()) chain.join_after = config_.grid_blocks();
  chain.join = [&](Tokens& all) { join_prefix(ctx, all); };
  return dtn::run_blocks(ctx, blocks_, std::move(tokens), chain);
}

ModelEntry vit_entry() {
  return {vit_schema(),
          [](const Scope& scope, const ModelConfig& c) -> std::unique_ptr<Backbone> {
            return std::make_unique<VisionTransformer>(scope, c);
          },
          {.renamed = in_timm_names}};
}

std::vector<PresetSchema> vit_presets() {
  // The style of the released DTN code: qkv without bias, a late class token, positions only for
  // the patches.
  const auto paper = [](const char* name, int embed_dim, int num_heads) -> PresetSchema {
    return {{.preset = name,
             .family = "vit",
             .embed_dim = embed_dim,
             .num_heads = num_heads,
             .qkv_bias = false,
             .class_token_at = 10,
             .pos_embed = PosEmbed::kPatch,
             .eps = 1e-5}};
  };
  // DeiT in timm's implementation.
  const auto deit = [](const char* name, int embed_dim, int num_heads) -> PresetSchema {
    return {{.preset = name,
             .family = "vit",
             .embed_dim = embed_dim,
             .num_heads = num_heads,
             .qkv_bias = true,
             .class_token_at = 0,
             .pos_embed = PosEmbed::kAll,
             .eps = 1e-6}};
  };
  return {paper("vit_t", 192, 3),      paper("vit_t_star", 192, 4), paper("vit_s", 384, 6),
          paper("vit_s_star", 432, 9), paper("vit_b", 768, 12),     paper("vit_b_star", 768, 16),
          deit("deit_tiny", 192, 3),   deit("deit_small", 384, 6),  deit("deit_base", 768, 12)};
}

}  // namespace dtn
