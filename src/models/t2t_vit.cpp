// T2T-ViT (Yuan et al., ICCV 2021): tokens of overlapping windows (nn/tokens_to_token.h), then a
// vision transformer with fixed sinusoidal positions and a class token. Parameter names are the
// authors'.
//
// The class token joins before block model.class_token_at and always has the position in row 0; the
// patches have the rows from 1 on. Images of another size have the positions of their own grid.
#include "dtn/nn/block.h"
#include "dtn/nn/grid_cache.h"
#include "dtn/nn/positions.h"
#include "dtn/nn/tokens_to_token.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "models/block_chain.h"
#include "models/entries.h"
#include "models/image_models.h"

namespace dtn {
namespace {

constexpr int kT2tStride = TokensToToken::kStride;

TokenGrid t2t_grid(const ModelConfig& c) {
  return {c.image_size.height / kT2tStride, c.image_size.width / kT2tStride};
}

// Returns a problem if no block uses norm.type, or if norm.type cannot work in a block.
std::optional<ConfigProblem> t2t_norm_problem(const ModelConfig& c, const NormSchema& norm) {
  if (norm.type == "ln") return {};
  const int layers = c.norm_layers();
  if (layers == 0 && !c.norm.layers) {
    return ConfigProblem{{"model.norm.type"},
                         cat("no block would use the normalizer '", norm.type,
                             "', because the class token joins before the first; set "
                             "model.class_token_at, or model.norm.layers")};
  }
  if (norm.needs_grid && !c.norm.takes_prefix() && layers > c.class_token_at) {
    return ConfigProblem{
        {"model.norm.layers", "model.class_token_at", "model.norm.type"},
        cat("the normalizer '", norm.type, "' works on the token grid, but model.norm.layers ",
            layers, " goes past block ", c.class_token_at,
            ", where the class token joins; set model.class_token_at and "
            "model.norm.layers to the same number, such as 10, or "
            "model.norm.prefix: ln")};
  }
  return {};
}

std::optional<ConfigProblem> check_t2t(const ModelConfig& c, const NormSchema& norm) {
  if (c.stages() != 1) {
    return ConfigProblem{{"model.depth", "model.embed_dim", "model.num_heads", "model.mlp_ratio"},
                         cat("T2T-ViT has one stage, not ", c.stages(), "; give single values")};
  }
  if (auto problem = image_size_problem(c, kT2tStride, "three splits take strides of 4, 2 and 2")) {
    return problem;
  }
  if (c.embed_dim % c.num_heads != 0) {
    return ConfigProblem{
        {"model.num_heads", "model.embed_dim"},
        cat("model.embed_dim ", c.embed_dim, " is not divisible by model.num_heads ", c.num_heads)};
  }
  if (c.mlp_dim() < 1) {
    return ConfigProblem{{"model.mlp_ratio"},
                         cat("model.mlp_ratio ", c.mlp_ratio, " leaves no hidden channel")};
  }
  if (auto problem = last_block_problem(c)) return problem;
  return t2t_norm_problem(c, norm);
}

std::vector<NormSite> t2t_norm_sites(const ModelConfig& c) {
  const TokenGrid grid = t2t_grid(c);
  if (c.norm_layers() == 0) return {};
  return {{c.embed_dim, c.num_heads, grid.height, grid.width}};
}

Parameter* make_t2t_positions(const Scope& scope, const ModelConfig& c) {
  Parameter* p =
      scope.weight("pos_embed", {1, 1 + t2t_grid(c).tokens(), c.embed_dim},
                   [](Tensor& table, std::uint64_t, const std::string&) { fill_sinusoids(table); });
  p->frozen = true;
  p->positions = {PositionKind::kSines, t2t_grid(c).height, t2t_grid(c).width, 1};
  return p;
}

std::vector<Block> make_t2t_blocks(const Scope& scope, const ModelConfig& c) {
  BlockOptions o;
  o.attention = {.channels = c.embed_dim, .heads = c.num_heads, .qkv_bias = c.qkv_bias};
  o.mlp = {.channels = c.embed_dim, .hidden = c.mlp_dim()};
  std::vector<Block> blocks;
  for (int i = 0; i < c.depth; ++i) {
    o.norm_shape = {c.embed_dim, c.num_heads, c.eps, t2t_grid(c)};
    o.norm.reset();
    if (i < c.norm_layers()) {
      o.norm = c.norm.at_stage(0);
      o.norm_shape.eps = norm_eps_of(c);
    }
    o.drop_path = c.drop_path_of(i);
    blocks.emplace_back(scope / i, o);
  }
  return blocks;
}

class T2tVit final : public ImageBackbone {
 public:
  T2tVit(const Scope& scope, const ModelConfig& config)
      : ImageBackbone(scope, config, check_t2t),
        tokens_to_token_(scope / "tokens_to_token", config.channels, config.embed_dim, config.eps),
        class_token_(
            scope.weight("cls_token", {1, 1, config.embed_dim}, InitKind::kTruncatedNormal)),
        positions_(make_t2t_positions(scope, config)),
        blocks_(make_t2t_blocks(scope / "blocks", config)),
        norm_(make_layer_norm({config.embed_dim, config.num_heads, config.eps}, scope / "norm")) {}

  Features forward(Context& ctx, const Fields& fields) override {
    Tokens tokens = run_blocks(ctx, fields, false);
    tokens.x = norm_->forward(ctx, tokens.x, tokens.arrangement());
    return {std::move(tokens)};
  }
  Variable pooled(Context& ctx, const Fields& fields) override {
    const Tokens tokens = run_blocks(ctx, fields, ctx.mode.skip_unread);
    return norm_->forward(ctx, ops::first_token(ctx, tokens.x), {1, 1});
  }
  std::string size_problem(const ImageSize& size) const override {
    if (std::string problem = division_problem(size, kT2tStride); !problem.empty()) {
      return problem + ", the stride of T2T-ViT";
    }
    const TokenGrid grid{size.height / kT2tStride, size.width / kT2tStride, 1};
    if (std::string problem = grid_limit_problem(grid); !problem.empty()) return problem;
    return grid_problem(blocks_, grid, config_.class_token_at);
  }
  std::vector<StageShape> stages() const override { return {{config_.embed_dim, kT2tStride}}; }
  std::vector<LayerInfo> layers() const override { return layers_of(blocks_); }

 private:
  // The tokens after the last block; or only the class token, if `class_token_alone` and the last
  // block can leave out the others.
  Tokens run_blocks(Context& ctx, const Fields& fields, bool class_token_alone) const {
    return dtn::run_blocks(ctx, blocks_, embed(ctx, fields),
                           {.join_after = config_.class_token_at,
                            .join = [&](Tokens& tokens) { join_class_token(ctx, tokens); },
                            .first_tokens = class_token_alone ? 1 : 0});
  }

  Tokens embed(Context& ctx, const Fields& fields) const {
    Tokens tokens = tokens_to_token_.forward(ctx, image_of(fields));
    const Variable table = positions_on(tokens.grid);
    const Variable of_patches = primitive::narrow(ctx, table, 1, 1, table.dim(1));
    tokens.x = ops::add_positions(ctx, tokens.x, of_patches);
    return tokens;
  }

  // The table of a grid, [1, 1 + h w, C].
  Variable positions_on(const TokenGrid& grid) const {
    const Variable& own = positions_->variable;
    if (grid == t2t_grid(config_)) return own;
    const auto make = [&] {
      Tensor table = Tensor::empty({1, 1 + grid.tokens(), own.dim(2)}, own.dtype());
      fill_sinusoids(table);
      return table.to(own.device());
    };
    return Variable(other_positions_.at(grid, own.dtype(), own.device(), make));
  }

  void join_class_token(Context& ctx, Tokens& tokens) const {
    const Variable first = primitive::narrow(ctx, positions_->variable, 1, 0, 1);
    const Variable token = primitive::add(ctx, class_token_->variable, first);
    tokens.x = ops::prepend_tokens(ctx, tokens.x, token);
    tokens.extra = 1;
  }

  TokensToToken tokens_to_token_;
  Parameter* class_token_;
  Parameter* positions_;                       // frozen
  mutable GridCache<Tensor> other_positions_;  // of images of other sizes
  std::vector<Block> blocks_;
  std::unique_ptr<Normalizer> norm_;
};

}  // namespace

ModelEntry t2t_vit_entry() {
  return {
      {.family = "t2t_vit",
       .doc = "T2T-ViT: tokens of overlapping windows, then a vision transformer",
       .reads = {"image_size", "channels", "num_heads", "mlp_ratio", "qkv_bias", "class_token_at",
                 "drop_path", "drop_path_mode", "init_image_size", "norm.layers"},
       .check = check_t2t,
       .norm_sites = t2t_norm_sites},
      make_backbone<T2tVit>};
}

std::vector<PresetSchema> t2t_vit_presets() {
  return {{{.preset = "t2t_vit_t_14",
            .family = "t2t_vit",
            .embed_dim = 384,
            .depth = 14,
            .num_heads = 6,
            .mlp_ratio = 3,
            .class_token_at = 0}}};
}

}  // namespace dtn
