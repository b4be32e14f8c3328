#include "models/vit_check.h"

#include <algorithm>

#include "dtn/core/check.h"
#include "models/entries.h"

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
  constexpr int kMaxGrid = 512;
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
  if (c.prefix_tokens() > 0 && c.class_token_at > c.depth) {
    return ConfigProblem{{"model.class_token_at", "model.depth"},
                         cat("model.class_token_at ", c.class_token_at, " is after the last of ",
                             c.depth, " blocks; it is at most model.depth")};
  }
  if (c.norm.layers && *c.norm.layers > c.depth) {
    return ConfigProblem{
        {"model.norm.layers", "model.depth"},
        cat("model.norm.layers ", *c.norm.layers, " is more than model.depth ", c.depth)};
  }
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

std::vector<NormSite> vit_norm_sites(const ModelConfig& c) {
  return {{c.embed_dim, c.num_heads, c.grid_h(), c.grid_w()}};
}

}  // namespace

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
  return vit_norm_grid_problem(c, norm);
}

ModelSchema vit_schema() {
  ModelSchema s;
  s.family = "vit";
  s.doc = "vision transformers: one grid of tokens from the first block to the last";
  s.reads = {"image_size",
             "patch_size",
             "channels",
             "num_heads",
             "mlp_ratio",
             "mlp",
             "act",
             "qkv_bias",
             "qk_norm",
             "class_token",
             "distilled",
             "registers",
             "pos_embed",
             "pos_resize",
             "class_token_at",
             "pool",
             "patch_bias",
             "norm_pre",
             "fc_norm",
             "layer_scale",
             "drop_path",
             "drop_path_mode",
             "dropout",
             "mhsa_position",
             "init_image_size",
             "norm.layers"};
  s.check = check_vit;
  s.norm_sites = vit_norm_sites;
  s.unsupported = timm_unsupported();
  return s;
}

}  // namespace dtn
