// Swin (Liu et al., Swin Transformer: Hierarchical Vision Transformer using Shifted Windows, ICCV
// 2021). Parameter names are those of its release.
//
// A patch convolution and a LayerNorm, patch_embed, then stages layers.{0..}. The attention of the
// blocks stays in windows of model.window x model.window tokens, which are shifted by half a window
// in every second block. `downsample` halves the grid at the end of every stage but the last. If a
// side of the grid is no longer than the window, the window has the length of that side and is not
// shifted. Images of another size have windows of the same length. The head reads the mean of the
// last tokens after `norm`. In a detector there is no `norm`; norm{0..} normalise the features of
// the stages that the detector reads, as in MMDetection.
#include <algorithm>

#include "dtn/nn/norm_layers.h"
#include "dtn/nn/patch_merging.h"
#include "dtn/nn/window_attention.h"
#include "dtn/nn/windows.h"
#include "models/entries.h"
#include "models/staged.h"
#include "models/stages.h"
#include "models/weights/name_maps.h"

namespace dtn {
namespace {

// Returns the grids of the stages for images of a size. Rounds down sides that do not divide.
std::vector<TokenGrid> grids_of(const ModelConfig& c, const ImageSize& size) {
  std::vector<TokenGrid> grids;
  TokenGrid grid{size.height / c.patch_size, size.width / c.patch_size};
  for (int stage = 0; stage < c.stages(); ++stage) {
    grids.push_back(grid);
    grid = {grid.height / 2, grid.width / 2};
  }
  return grids;
}

// The check reports sides that do not divide.
std::vector<StageConfig> stages_of(const ModelConfig& c) {
  return dtn::stages_of(c, grids_of(c, c.image_size));
}

// Pixels of a side of the last stage's tokens.
int last_patch_size(const ModelConfig& c) { return c.patch_size << (c.stages() - 1); }

std::optional<ConfigProblem> check_swin(const ModelConfig& c, const NormSchema&) {
  if (!c.window) return ConfigProblem{{"model.window"}, "model.window is not set; 7 is usual"};
  const int step = last_patch_size(c);
  for (const int side : {c.image_size.height, c.image_size.width}) {
    if (side % step == 0) continue;
    return ConfigProblem{{"model.image_size", "model.patch_size"},
                         cat("model.image_size ", side, " is not divisible by ", step,
                             ", the patch size of the last stage; the nearest multiple is ",
                             std::max(1, (side + step / 2) / step) * step)};
  }
  return stage_problem(c, stages_of(c));
}

std::vector<NormSite> swin_norm_sites(const ModelConfig& c) {
  return norm_sites_of(c, stages_of(c), c.stages());
}

std::vector<Block> make_blocks(const Scope& scope, const ModelConfig& c, const StageConfig& s) {
  const std::int64_t window = window_side(s.grid.height, s.grid.width, *c.window);
  std::vector<Block> blocks;
  for (int i = 0; i < s.depth; ++i) {
    BlockOptions o = block_options(scope, c, s, i, c.stages());
    o.make_attention = [&](const Scope& at) {
      return std::make_unique<WindowAttention>(
          at, WindowAttention::Options{.channels = s.channels,
                                       .heads = s.heads,
                                       .window = window,
                                       .shift = i % 2 == 1 ? window / 2 : 0,
                                       .qkv_bias = c.qkv_bias});
    };
    blocks.emplace_back(scope / i, o);
  }
  return blocks;
}

bool is_computed(const std::string& name) {
  return name.ends_with(".attn.relative_position_index") || name.ends_with(".attn_mask");
}

class SwinTransformer final : public StagedTransformer {
 public:
  SwinTransformer(const Scope& scope, const ModelConfig& config)
      : StagedTransformer(scope, config, check_swin),
        patch_embed_(scope / "patch_embed", config.channels, config.embed_dim.at(0),
                     {.kernel = config.patch_size, .stride = config.patch_size}) {
    const bool detects = config.detector.kind.has_value();
    const int first_read = config.detector.kind == DetectorKind::kRetinaNet ? 1 : 0;
    for (const StageConfig& s : stages_of(config)) {
      const Scope stage = scope / "layers" / s.index;
      const bool last = s.index + 1 == config.stages();
      const auto norm = [&](const std::string& name) {
        return make_layer_norm({s.channels, s.heads, config.eps, s.grid}, scope / name);
      };
      stages_.push_back({make_blocks(stage / "blocks", config, s),
                         last && !detects ? norm("norm") : nullptr,
                         detects && s.index >= first_read ? norm(cat("norm", s.index)) : nullptr});
      if (last) continue;
      downsamples_.emplace_back(stage / "downsample", s.channels, config.embed_dim.at(s.index + 1),
                                config.eps);
    }
  }

  std::string size_problem(const ImageSize& size) const override {
    if (std::string problem = division_problem(size, last_patch_size(config_)); !problem.empty()) {
      return problem + ", the patch size of the last stage";
    }
    return stage_grid_problem(grids_of(config_, size));
  }

 private:
  Tokens enter(Context& ctx, int stage, const Tokens& before) const override {
    if (stage == 0) return patch_embed_.forward(ctx, before);
    return downsamples_[static_cast<std::size_t>(stage) - 1].forward(ctx, before);
  }

  ConvEmbed patch_embed_;
  std::vector<PatchMerging> downsamples_;
};

}  // namespace

ModelEntry swin_entry() {
  return {{.family = "swin",
           .doc = "Swin transformers: each stage has fewer and wider tokens; attention inside "
                  "shifted windows",
           .reads = transformer_keys({"window"}),
           .check = check_swin,
           .norm_sites = swin_norm_sites},
          make_backbone<SwinTransformer>,
          {.renamed = in_swin_names, .skips = is_computed}};
}

std::vector<PresetSchema> swin_presets() {
  const auto swin = [](const char* name, PerStage<int> depth) {
    PresetSchema preset{staged_preset(name, "swin")};
    ModelConfig& m = preset.model;
    m.embed_dim = {96, 192, 384, 768};
    m.depth = std::move(depth);
    m.num_heads = {3, 6, 12, 24};
    m.window = 7;
    return preset;
  };
  return {swin("swin_t", {2, 2, 6, 2}), swin("swin_s", {2, 2, 18, 2})};
}

}  // namespace dtn
