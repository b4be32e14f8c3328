#include "models/dit_config.h"

#include <algorithm>

#include "core/format.h"
#include "dtn/core/check.h"
#include "models/entries.h"
#include "models/image_models.h"

namespace dtn {
namespace {

std::optional<ConfigProblem> dit_shape_problem(const ModelConfig& c) {
  if (c.stages() != 1) {
    return ConfigProblem{
        {"model.depth", "model.embed_dim", "model.num_heads", "model.mlp_ratio"},
        cat("a diffusion transformer has one stage, not ", c.stages(), "; give single values")};
  }
  if (c.embed_dim % c.num_heads != 0) {
    return ConfigProblem{
        {"model.num_heads", "model.embed_dim"},
        cat("model.embed_dim ", c.embed_dim, " is not divisible by model.num_heads ", c.num_heads)};
  }
  if (c.embed_dim % 4 != 0) {
    return ConfigProblem{{"model.embed_dim"},
                         cat("model.embed_dim ", c.embed_dim,
                             " is not a multiple of 4, which sines and cosines of rows and columns "
                             "need")};
  }
  if (c.mlp_dim() < 1) {
    return ConfigProblem{
        {"model.mlp_ratio"},
        cat("model.mlp_ratio ", c.mlp_ratio, " leaves no hidden channel in the MLP")};
  }
  return {};
}

std::optional<ConfigProblem> dit_grid_problem(const ModelConfig& c) {
  const std::string reason = cat("model.patch_size is ", c.patch_size);
  if (auto problem = image_size_problem(c, c.patch_size, reason)) return problem;
  const TokenGrid grid{c.grid_h(), c.grid_w()};
  if (const std::string problem = grid_limit_problem(grid); !problem.empty()) {
    return ConfigProblem{{"model.patch_size", "model.image_size"}, problem};
  }
  return {};
}

// In-context tokens have no place in the grid.
std::optional<ConfigProblem> dit_norm_problem(const ModelConfig& c, const NormSchema& norm) {
  if (c.condition.into != ConditionInto::kInContext || !norm.needs_grid || c.norm.takes_prefix() ||
      normalized_dit_blocks(c) == 0) {
    return {};
  }
  const bool has_prefix =
      std::ranges::find(norm.options, "prefix", &OptionSchema::key) != norm.options.end();
  return ConfigProblem{
      {"model.condition.into", "model.norm.type"},
      cat("the normalizer '", norm.type,
          "' works on the token grid, but with model.condition.into: in_context the condition's ",
          "tokens precede the grid; set ", has_prefix ? "model.norm.prefix: ln, " : "",
          "model.norm.layers: 0 or another model.condition.into")};
}

std::vector<NormSite> dit_norm_sites(const ModelConfig& c) {
  if (normalized_dit_blocks(c) == 0) return {};
  return {{c.embed_dim, c.num_heads, c.grid_h(), c.grid_w()}};
}

ModelConfig dit_preset(const std::string& name, int width, int depth, int heads, int patch) {
  ModelConfig c;
  c.preset = name;
  c.family = "dit";
  c.image_size = 32;
  c.patch_size = patch;
  c.channels = 4;
  c.num_classes = 1000;
  c.embed_dim = width;
  c.depth = depth;
  c.num_heads = heads;
  c.act = MlpActivation::kGeluTanh;
  c.qkv_bias = true;
  c.pool = Pooling::kMean;  // no class token
  c.class_token_at = 0;
  c.eps = 1e-6;
  c.learn_sigma = true;
  c.label_dropout = 0.1;
  return c;
}

}  // namespace

bool is_adaptive(const ModelConfig& c) {
  return c.condition.into == ConditionInto::kAdalnZero || c.condition.into == ConditionInto::kAdaln;
}

bool has_gates(const ModelConfig& c) { return c.condition.into == ConditionInto::kAdalnZero; }

bool has_affine_norms(const ModelConfig& c) { return c.norm.affine.value_or(!is_adaptive(c)); }

int normalized_dit_blocks(const ModelConfig& c) { return c.norm.layers.value_or(c.depth); }

std::optional<ConfigProblem> check_dit(const ModelConfig& c, const NormSchema& norm) {
  if (auto problem = dit_shape_problem(c)) return problem;
  if (auto problem = dit_grid_problem(c)) return problem;
  if (auto problem = last_block_problem(c, false)) return problem;
  return dit_norm_problem(c, norm);
}

ModelSchema dit_schema() {
  return {
      .family = "dit",
      .doc = "diffusion transformers: the noise in an image, from noise level and label",
      .reads = {"image_size", "patch_size", "channels", "num_heads", "mlp_ratio", "init_image_size",
                "norm.layers", "condition.into", "learn_sigma", "label_dropout"},
      .check = check_dit,
      .task = "diffusion",
      .norm_sites = dit_norm_sites};
}

std::vector<PresetSchema> dit_presets() {
  struct Size {
    const char* name;
    int width, depth, heads;
  };
  std::vector<PresetSchema> presets;
  for (const Size& s : {Size{"s", 384, 12, 6}, Size{"b", 768, 12, 12}, Size{"l", 1024, 24, 16},
                        Size{"xl", 1152, 28, 16}}) {
    for (const int patch : {2, 4, 8}) {
      presets.push_back(
          {dit_preset(cat("dit_", s.name, "_", patch), s.width, s.depth, s.heads, patch)});
    }
  }
  // Small enough for a CPU: images of 28 x 28 gray pixels in 10 classes.
  ModelConfig tiny = dit_preset("dit_tiny", 96, 4, 4, 4);
  tiny.image_size = 28;
  tiny.channels = 1;
  tiny.num_classes = 10;
  tiny.learn_sigma = false;
  presets.push_back({tiny});
  return presets;
}

}  // namespace dtn
