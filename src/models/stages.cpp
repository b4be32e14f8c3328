#include "models/stages.h"

#include "models/image_models.h"

namespace dtn {
namespace {

// Returns the normalizer of a stage. Per-stage options that are not set take the model's norm_pool.
NormConfig norm_of(const Scope& scope, const ModelConfig& c, int stage) {
  NormConfig norm = c.norm;
  for (const OptionSchema& option : norm_schema_of(c, scope).options) {
    if (!option.per_stage || norm.find<std::int64_t>(option.key) ||
        norm.find<std::vector<std::int64_t>>(option.key)) {
      continue;
    }
    norm.options.push_back({option.key, c.norm_pool.at(stage)});
  }
  return norm.at_stage(stage);
}

}  // namespace

std::vector<StageConfig> stages_of(const ModelConfig& c, const std::vector<TokenGrid>& grids) {
  std::vector<StageConfig> stages;
  int blocks = 0;
  for (int i = 0; i < c.stages(); ++i) {
    const int channels = c.embed_dim.at(i);
    stages.push_back({.index = i,
                      .channels = channels,
                      .heads = c.num_heads.at(i),
                      .hidden = static_cast<std::int64_t>(channels * c.mlp_ratio.at(i)),
                      .depth = c.depth.at(i),
                      .first_block = blocks,
                      .grid = grids.at(static_cast<std::size_t>(i))});
    blocks += c.depth.at(i);
  }
  return stages;
}

int normalized_stages(const ModelConfig& c, int usual) { return c.norm.layers.value_or(usual); }

std::vector<NormSite> norm_sites_of(const ModelConfig& c, const std::vector<StageConfig>& stages,
                                    int usual) {
  std::vector<NormSite> sites;
  for (const StageConfig& s : stages) {
    if (s.index >= normalized_stages(c, usual)) break;
    sites.push_back({s.channels, s.heads, s.grid.height, s.grid.width, s.index});
  }
  return sites;
}

BlockOptions block_options(const Scope& scope, const ModelConfig& c, const StageConfig& s,
                           int block, int usual) {
  BlockOptions o;
  o.attention = {.channels = s.channels, .heads = s.heads, .qkv_bias = c.qkv_bias};
  o.mlp = {.channels = s.channels, .hidden = s.hidden};
  o.norm_shape = {s.channels, s.heads, c.eps, s.grid};
  if (s.index < normalized_stages(c, usual)) {
    o.norm = norm_of(scope, c, s.index);
    o.norm_shape.eps = norm_eps_of(c);
  }
  o.drop_path = c.drop_path_of(s.first_block + block);
  return o;
}

std::vector<std::string> transformer_keys(std::vector<std::string> more) {
  for (const char* key :
       {"image_size", "patch_size", "channels", "num_heads", "mlp_ratio", "qkv_bias", "drop_path",
        "drop_path_mode", "init_image_size", "norm.layers"}) {
    more.push_back(key);
  }
  return more;
}

std::optional<ConfigProblem> stage_problem(const ModelConfig& c,
                                           const std::vector<StageConfig>& stages) {
  for (const StageConfig& s : stages) {
    const std::string where = cat(" of stage ", s.number());
    const std::int64_t height = s.grid.height, width = s.grid.width;
    if (height < 1 || width < 1) {
      return ConfigProblem{{"model.image_size", "model.patch_size", "model.depth"},
                           cat("images of ", c.image_size, " give the grid", where, " only ",
                               height, " x ", width, " tokens; make model.image_size larger")};
    }
    if (height > kMaxGrid || width > kMaxGrid) {
      return ConfigProblem{{"model.image_size", "model.patch_size"},
                           cat("a grid of ", height, " x ", width, " tokens; at most ", kMaxGrid,
                               " x ", kMaxGrid, " are allowed")};
    }
    if (s.channels % s.heads != 0) {
      return ConfigProblem{{"model.num_heads", "model.embed_dim"},
                           cat("model.embed_dim ", s.channels, where,
                               " is not divisible by its model.num_heads ", s.heads)};
    }
    if (s.hidden < 1) {
      return ConfigProblem{{"model.mlp_ratio"},
                           cat("model.mlp_ratio", where, " leaves no hidden channel in the MLP")};
    }
  }
  const auto count = static_cast<int>(stages.size());
  if (c.norm.layers && *c.norm.layers > count) {
    return ConfigProblem{
        {"model.norm.layers", "model.depth"},
        cat("model.norm.layers ", *c.norm.layers, " counts stages, but the model has ", count)};
  }
  return std::nullopt;
}

ModelConfig staged_preset(const char* name, const char* family) {
  return {.preset = name,
          .family = family,
          .patch_size = 4,
          .qkv_bias = true,
          .class_token_at = 0,
          .pool = Pooling::kMean,
          .norm_pool = {4, 2, 1, 1}};
}

}  // namespace dtn
