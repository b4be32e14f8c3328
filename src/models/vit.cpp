// The vision transformer of the paper (and of DeiT): patches, positions, pre-norm blocks with a
// configurable normalizer, class token or mean pooling, and the options of public checkpoints.
// Parameter names are those of timm.
//
// In order: patches, the prefix (class token, distillation token, registers) and positions,
// norm_pre, blocks, norm, pooling, fc_norm.
#include <algorithm>
#include <deque>
#include <utility>

#include "dtn/config/condition_field.h"
#include "dtn/nn/block.h"
#include "dtn/nn/initializers.h"
#include "dtn/nn/patch_embed.h"
#include "dtn/nn/positions.h"
#include "dtn/ops/tokens.h"
#include "models/block_chain.h"
#include "models/data_condition.h"
#include "models/entries.h"
#include "models/image_models.h"
#include "models/stages.h"
#include "models/weights/name_maps.h"

namespace dtn {
namespace {

using Problem = std::optional<ConfigProblem>;

int nearest_multiple(int value, int of) {
  return std::max(1, static_cast<int>((static_cast<std::int64_t>(value) + of / 2) / of)) * of;
}

Problem vit_grid_problem(const ModelConfig& c) {
  for (int side : {c.image_size.height, c.image_size.width}) {
    if (side % c.patch_size == 0) continue;
    return ConfigProblem{
        {"model.image_size", "model.patch_size"},
        cat("model.image_size ", side, " is not divisible by model.patch_size ", c.patch_size,
            "; the nearest image_size that is: ", nearest_multiple(side, c.patch_size))};
  }
  if (std::max(c.grid_h(), c.grid_w()) > kMaxGrid) {
    return ConfigProblem{{"model.patch_size", "model.image_size"},
                         cat("a grid of ", c.grid_h(), " x ", c.grid_w(), " patches; at most ",
                             kMaxGrid, " x ", kMaxGrid, " are allowed")};
  }
  return {};
}

Problem vit_width_problem(const ModelConfig& c) {
  if (c.embed_dim % c.num_heads != 0) {
    return ConfigProblem{
        {"model.num_heads", "model.embed_dim"},
        cat("model.embed_dim ", c.embed_dim, " is not divisible by model.num_heads ", c.num_heads,
            "; the nearest embed_dim that is: ", nearest_multiple(c.embed_dim, c.num_heads))};
  }
  if (c.embed_dim * c.mlp_ratio < 1) {
    return ConfigProblem{
        {"model.mlp_ratio"},
        cat("model.mlp_ratio ", c.mlp_ratio, " leaves no hidden channel in the MLP")};
  }
  if (c.mlp == MlpKind::kSwigluPacked && c.mlp_dim() % 2 != 0) {
    return ConfigProblem{
        {"model.mlp", "model.mlp_ratio", "model.embed_dim"},
        cat("model.mlp: swiglu_packed halves the hidden channels, int(embed_dim x mlp_ratio), but "
            "there are ",
            c.mlp_dim(), "; change model.mlp_ratio")};
  }
  return {};
}

Problem vit_token_problem(const ModelConfig& c) {
  if (c.pool == Pooling::kCls && !c.has_class_token()) {
    return ConfigProblem{{"model.class_token", "model.pool"},
                         "model.pool: cls needs the class token; set model.pool: mean, or leave "
                         "model.class_token out"};
  }
  if (c.distilled && c.pool != Pooling::kCls) {
    return ConfigProblem{{"model.distilled", "model.pool"},
                         "model.distilled: its two heads read their own tokens, not a mean; set "
                         "model.pool: cls"};
  }
  if (c.norm_pre && c.prefix_tokens() > 0 && c.grid_blocks() > 0) {
    return ConfigProblem{
        {"model.norm_pre", "model.class_token_at"},
        cat("model.norm_pre normalizes all tokens before the first block, but class token and "
            "registers join before block ",
            c.class_token_at, "; set model.class_token_at: 0")};
  }
  return {};
}

bool has_prefix_option(const NormSchema& norm) {
  return std::ranges::find(norm.options, "prefix", &OptionSchema::key) != norm.options.end();
}

Problem vit_block_problem(const ModelConfig& c, const NormSchema& norm) {
  if (auto problem = last_block_problem(c, c.prefix_tokens() > 0)) return problem;
  if (norm.type != "ln" && !c.norm.layers && c.norm_layers() == 0) {
    return ConfigProblem{{"model.norm.type"},
                         cat("no block would use the normalizer '", norm.type,
                             "', because the class token joins before the first; set ",
                             has_prefix_option(norm) ? "model.norm.prefix: ln, " : "",
                             "model.class_token_at, model.pool: mean or model.norm.layers")};
  }
  if (c.mhsa_position && c.grid_blocks() == 0) {
    return ConfigProblem{
        {"model.mhsa_position"},
        "no block would use model.mhsa_position, because the class token joins before the first "
        "and has no place in the grid; set model.class_token_at with model.pos_embed: "
        "patch, or model.pool: mean"};
  }
  return {};
}

Problem vit_norm_grid_problem(const ModelConfig& c, const NormSchema& norm) {
  if (!norm.needs_grid || c.norm.takes_prefix() || c.norm_layers() <= c.grid_blocks()) return {};
  return ConfigProblem{
      {"model.norm.layers", "model.class_token_at", "model.pos_embed", "model.norm.type",
       "model.pool"},
      cat("the normalizer '", norm.type, "' works on the token grid, but model.norm.layers ",
          c.norm_layers(), " reaches past block ", c.grid_blocks(), ", where the class token joins",
          c.pos_embed == PosEmbed::kAll ? " (before the first, with model.pos_embed: all)" : "",
          "; set ", has_prefix_option(norm) ? "model.norm.prefix: ln, " : "",
          "model.norm.layers to at most ", c.grid_blocks(), " or model.pool: mean")};
}

Problem vit_condition_problem(const ModelConfig& c, const NormSchema& norm) {
  const ConditionConfig& condition = c.condition;
  if (!condition.from) {
    if (!norm.reads_condition) return {};
    return ConfigProblem{
        {"model.norm.type", "model.condition.from"},
        cat("the normalizer '", norm.type,
            "' takes gains and shifts from a condition; set model.condition.from to index (the "
            "field `style` of the data) with model.condition.styles, or to vector (the field "
            "`vector`) with model.condition.size")};
  }
  if (!norm.reads_condition || c.norm_layers() == 0) {
    return ConfigProblem{{"model.condition.from", "model.norm.type", "model.norm.layers"},
                         "no block reads model.condition.from; set model.norm.type: adaln, or "
                         "remove the key"};
  }
  if (*condition.from == ConditionFrom::kImage) {
    return ConfigProblem{
        {"model.condition.from"},
        "model.condition.from: image is for image-to-image models; set it to index "
        "or vector"};
  }
  const bool by_index = *condition.from == ConditionFrom::kIndex;
  if (by_index && !condition.styles) {
    return ConfigProblem{{"model.condition.styles", "model.condition.from"},
                         "model.condition.from: index needs the number of indices; set "
                         "model.condition.styles"};
  }
  if (!by_index && condition.styles) {
    return ConfigProblem{{"model.condition.styles", "model.condition.from"},
                         "model.condition.styles is for model.condition.from: index; remove it"};
  }
  if (!by_index && !condition.size) {
    return ConfigProblem{{"model.condition.size", "model.condition.from"},
                         "model.condition.from: vector needs the length of the vectors; set "
                         "model.condition.size"};
  }
  return {};
}

std::vector<NormSite> vit_norm_sites(const ModelConfig& c) {
  return {{c.embed_dim, c.num_heads, c.grid_h(), c.grid_w()}};
}

Problem check_vit(const ModelConfig& c, const NormSchema& norm) {
  if (c.stages() != 1) {
    return ConfigProblem{
        {"model.depth", "model.embed_dim", "model.num_heads", "model.mlp_ratio"},
        cat("a vision transformer has one stage, not ", c.stages(), "; give single values")};
  }
  if (auto problem = vit_width_problem(c)) return problem;
  if (auto problem = vit_grid_problem(c)) return problem;
  if (auto problem = vit_token_problem(c)) return problem;
  if (auto problem = vit_block_problem(c, norm)) return problem;
  if (auto problem = vit_condition_problem(c, norm)) return problem;
  return vit_norm_grid_problem(c, norm);
}

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
  return scope.weight("reg_token", {1, c.registers, c.embed_dim}, truncated_normal(kStd));
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
    o.norm_shape.condition = condition_size(c);
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

// Keeps the outputs of the last layers of a pass.
class LastLayers final : public Observer {
 public:
  explicit LastLayers(int count) : count_(static_cast<std::size_t>(count)) {}
  void end_layer(const Tensor& x, const TokenGrid& grid) override {
    if (layers_.size() == count_) layers_.pop_front();
    layers_.emplace_back(x, grid);
  }
  const std::deque<std::pair<Variable, TokenGrid>>& layers() const { return layers_; }

 private:
  std::size_t count_;
  std::deque<std::pair<Variable, TokenGrid>> layers_;
};

class VisionTransformer final : public ImageBackbone {
 public:
  VisionTransformer(const Scope& scope, const ModelConfig& config)
      : ImageBackbone(scope, config, check_vit),
        class_token_(make_class_token(scope, config)),
        distillation_token_(make_distillation_token(scope, config)),
        registers_(make_registers(scope, config)),
        positions_(make_positions(scope, config)),
        patch_embed_(scope / "patch_embed", {.channels = config.channels,
                                             .patch = config.patch_size,
                                             .width = config.embed_dim,
                                             .bias = config.has_patch_bias()}),
        position_dropout_(scope / "pos_drop", config.dropout),
        condition_(scope / "condition", config),
        norm_pre_(config.norm_pre ? make_layer_norm(norm_shape(config), scope / "norm_pre")
                                  : nullptr),
        blocks_(make_blocks(scope / "blocks", config)),
        norm_(make_layer_norm(norm_shape(config), scope / (config.fc_norm ? "fc_norm" : "norm"))) {}

  std::vector<FieldSpec> inputs() const override {
    std::vector<FieldSpec> fields = ImageBackbone::inputs();
    if (auto condition = condition_field(config_)) fields.push_back(std::move(*condition));
    return fields;
  }
  // For a distilled model the mean of both tokens.
  Variable pooled(Context& ctx, const Fields& fields) override {
    const std::vector<Variable> each = pooled_each(ctx, fields);
    if (each.size() == 1) return each.front();
    return primitive::affine(ctx, primitive::add(ctx, each[0], each[1]), 0.5);
  }
  // The class token and, for a distilled model, the distillation token.
  // The last norm works on single tokens, so only the pooled tokens need it.
  std::vector<Variable> pooled_each(Context& ctx, const Fields& fields) override {
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
    return {mean_patch(ctx, x, {tokens.grid.height, tokens.grid.width, tokens.extra})};
  }
  std::vector<BlockOutput> last_blocks(Context& given, const Fields& fields, int count) override {
    if (count > config_.depth) {
      throw ConfigError(
          cat("the model has ", config_.depth, " blocks, fewer than the ", count, " to combine"));
    }
    LastLayers last(count);
    Context ctx = unseen(given);
    ctx.observer = &last;
    run_blocks(ctx, fields, false);
    ctx.observer = nullptr;
    std::vector<BlockOutput> outputs;
    for (const auto& [x, grid] : last.layers()) {
      outputs.push_back({class_token(ctx, x, grid), mean_patch(ctx, x, grid)});
    }
    return outputs;
  }
  std::string size_problem(const ImageSize& size) const override {
    if (std::string problem = division_problem(size, config_.patch_size); !problem.empty()) {
      return problem + ", model.patch_size";
    }
    const TokenGrid grid{size.height / config_.patch_size, size.width / config_.patch_size,
                         config_.prefix_tokens()};
    if (std::string problem = grid_limit_problem(grid); !problem.empty()) return problem;
    return grid_problem(blocks_, grid, config_.grid_blocks());
  }
  Features forward(Context& ctx, const Fields& fields) override {
    Tokens tokens = run_blocks(ctx, fields, false);
    if (!config_.fc_norm) tokens.x = norm_->forward(ctx, tokens.x, tokens.arrangement());
    return {std::move(tokens)};
  }
  std::vector<StageShape> stages() const override {
    return {{config_.embed_dim, config_.patch_size}};
  }
  std::vector<LayerInfo> layers() const override { return layers_of(blocks_); }
  std::vector<ClassHead> make_heads(const Scope& scope, int classes) const override {
    auto heads = Backbone::make_heads(scope, classes);
    if (config_.distilled) {
      heads.push_back(make_linear_head(scope / "head_dist", config_.embed_dim, classes));
    }
    return heads;
  }

 private:
  // True if the pooled tokens join before the last block and that block can process them alone,
  // leaving out all other tokens; pooled() does so.
  bool ends_in_class_token() const {
    return config_.pool == Pooling::kCls && config_.grid_blocks() < config_.depth &&
           blocks_.back().has_first_path();
  }

  Tokens embed(Context& ctx, const Fields& fields) const {
    const ModelConfig& c = config_;
    Tokens tokens = patch_embed_.forward(ctx, image_of(fields));
    const bool with_positions = c.pos_embed == PosEmbed::kAll;
    if (with_positions) join_prefix(ctx, tokens);
    tokens.x = ops::add_positions(ctx, tokens.x, positions_.on(ctx, tokens.grid));
    tokens.x = position_dropout_.forward(ctx, tokens.x);
    if (!with_positions && joins_first()) join_prefix(ctx, tokens);
    if (norm_pre_) tokens.x = norm_pre_->forward(ctx, tokens.x, tokens.arrangement());
    return tokens;
  }

  // The tokens after the last block and before the last norm, with the prefix; or only the pooled
  // tokens, if `pooled_alone` and ends_in_class_token().
  Tokens run_blocks(Context& given, const Fields& fields, bool pooled_alone) const {
    Context ctx = given;
    ctx.condition = condition_.read(ctx, fields);
    Tokens tokens = embed(ctx, fields);
    BlockChain chain{.first_tokens = pooled_alone ? pooled_tokens() : 0};
    if (tokens.extra < config_.prefix_tokens()) chain.join_after = config_.grid_blocks();
    chain.join = [&](Tokens& all) { join_prefix(ctx, all); };
    return dtn::run_blocks(ctx, blocks_, std::move(tokens), chain);
  }

  // The mean of the grid's tokens after the last norm.
  Variable mean_patch(Context& ctx, const Variable& x, const TokenGrid& grid) const {
    const Variable patches =
        grid.prefix == 0 ? x : primitive::narrow(ctx, x, 1, grid.prefix, x.dim(1));
    if (config_.fc_norm) return norm_->forward(ctx, ops::mean_token(ctx, patches), {1, 1});
    const TokenGrid alone{grid.height, grid.width};
    return ops::mean_token(ctx, norm_->forward(ctx, patches, alone));
  }
  // The class token after the last norm (its mean with the distillation token). Undefined if it
  // has not joined, or the model pools by the mean.
  Variable class_token(Context& ctx, const Variable& x, const TokenGrid& grid) const {
    if (grid.prefix == 0 || config_.pool != Pooling::kCls) return {};
    const Variable tokens = ops::first_tokens(ctx, x, pooled_tokens());
    return ops::mean_token(ctx, norm_->forward(ctx, tokens, {1, pooled_tokens()}));
  }

  // The number of leading tokens that cls pooling reads.
  std::int64_t pooled_tokens() const { return 1 + config_.distilled; }
  void join_prefix(Context& ctx, Tokens& tokens) const {
    // Prepends in reverse order: the class token becomes the first.
    for (const Parameter* part : {registers_, distillation_token_, class_token_}) {
      if (part) tokens.x = ops::prepend_tokens(ctx, tokens.x, part->variable);
    }
    tokens.extra = config_.prefix_tokens();
  }
  bool joins_first() const { return config_.prefix_tokens() > 0 && config_.grid_blocks() == 0; }

  Parameter* class_token_;  // null: none
  Parameter* distillation_token_;
  Parameter* registers_;
  LearnedPositions positions_;
  PatchEmbed patch_embed_;
  Dropout position_dropout_;
  DataCondition condition_;
  std::unique_ptr<Normalizer> norm_pre_;  // null: none
  std::vector<Block> blocks_;
  std::unique_ptr<Normalizer> norm_;  // of all tokens; with fc_norm, of the pooled vector
};

}  // namespace

ModelEntry vit_entry() {
  return {
      {.family = "vit",
       .doc = "vision transformers: one grid of tokens from the first block to the last",
       .reads = transformer_keys({"mlp", "act", "qk_norm", "class_token", "distilled", "registers",
                                  "pos_embed", "pos_resize", "class_token_at", "pool", "patch_bias",
                                  "norm_pre", "fc_norm", "layer_scale", "dropout", "mhsa_position",
                                  "condition.from", "condition.size", "condition.styles"}),
       .check = check_vit,
       .norm_sites = vit_norm_sites,
       .unsupported = timm_unsupported()},
      make_backbone<VisionTransformer>,
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
