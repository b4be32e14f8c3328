// Pyramid vision transformers: PVT (Wang et al., Pyramid Vision Transformer, ICCV 2021) and PVTv2
// (Wang et al., PVT v2: Improved Baselines with Pyramid Vision Transformer, 2022). Parameter names
// are those of their release.
//
// A stage s = 1.. is a convolution and a LayerNorm, patch_embed{s}, then the blocks block{s}.{0..}.
// Their keys and values come from a map that is model.reduction times coarser. model.patch_size is
// the stride of the first stage; the others halve the grid.
//   PVT    the kernel equals the stride, and rows and columns that it does not divide are cut off;
//          positions pos_embed{s}; a class token, cls_token, joins at the last stage; one norm, at
//          the end
//          In a detector the stages' features are the result: there is no class token and no norm
//          at the end, and pos_embed of the last stage keeps the class token's row, unread.
//   PVTv2  kernels overlap, with zeros around the grid, and a side of n becomes ceil(n / stride);
//          no positions and no class token; a depthwise convolution in the MLP; each stage ends
//          with norm{s}
#include "dtn/nn/conv_mlp.h"
#include "dtn/nn/norm_layers.h"
#include "dtn/nn/positions.h"
#include "dtn/nn/reduced_attention.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "models/entries.h"
#include "models/staged.h"
#include "models/stages.h"
#include "models/weights/name_maps.h"

namespace dtn {
namespace {

enum class Version { kV1, kV2 };

// Returns the options of the convolution at the start of a stage.
TokenConv::Options embed_options(Version version, const ModelConfig& c, int stage) {
  const std::int64_t stride = stage == 0 ? c.patch_size : 2;
  if (version == Version::kV1) return {.kernel = stride, .stride = stride};
  // Kernels of 7 for a stride of 4, and of 3 for 2: neighbouring kernels overlap by about half.
  return {
      .kernel = 2 * stride - 1, .stride = stride, .padding = stride - 1, .init = ConvInit::kFanOut};
}

// Returns the grids of the stages for images of a size. A side that is too short for the kernel has
// 0 tokens.
std::vector<TokenGrid> grids_of(Version version, const ModelConfig& c, const ImageSize& size) {
  std::vector<TokenGrid> grids;
  std::int64_t height = size.height, width = size.width;
  for (int stage = 0; stage < c.stages(); ++stage) {
    const TokenConv::Options o = embed_options(version, c, stage);
    const auto after = [&](std::int64_t n) {
      const std::int64_t room = n + 2 * o.padding - o.kernel;
      return n < 1 || room < 0 ? 0 : room / o.stride + 1;
    };
    height = after(height);
    width = after(width);
    grids.push_back({height, width});
  }
  return grids;
}

std::vector<StageConfig> stages_of(Version version, const ModelConfig& c) {
  return dtn::stages_of(c, grids_of(version, c, c.image_size));
}

// The last stage keeps LayerNorm: in PVT because of its class token, in PVTv2 to match PVT.
int usual_norm_stages(const ModelConfig& c) { return c.stages() - 1; }

std::optional<ConfigProblem> reduction_problem(Version version, const ModelConfig& c,
                                               const std::vector<StageConfig>& stages) {
  if (!c.reduction) {
    return ConfigProblem{{"model.reduction"},
                         "model.reduction is not set; give one number, or one for each stage"};
  }
  for (const StageConfig& s : stages) {
    const int r = c.reduction->at(s.index);
    if (s.grid.height < r || s.grid.width < r) {
      return ConfigProblem{{"model.reduction", "model.image_size"},
                           cat("model.reduction ", r, " of stage ", s.number(),
                               " leaves no key in its grid of ", s.grid.height, " x ", s.grid.width,
                               " tokens; lower it, or make model.image_size larger")};
    }
  }
  if (version == Version::kV1 && c.reduction->at(c.stages() - 1) != 1) {
    return ConfigProblem{
        {"model.reduction"},
        cat("model.reduction ", c.reduction->at(c.stages() - 1),
            " of the last stage must be 1: the class token joins there, and is outside the grid")};
  }
  return std::nullopt;
}

std::optional<ConfigProblem> norm_problem(const ModelConfig& c, const NormSchema& norm) {
  const int layers = normalized_stages(c, usual_norm_stages(c));
  if (!norm.needs_grid || c.norm.takes_prefix() || layers < c.stages() || c.detector.kind) {
    return std::nullopt;
  }
  return ConfigProblem{
      {"model.norm.layers", "model.norm.type"},
      cat("the normalizer '", norm.type, "' works on the token grid, but model.norm.layers ",
          layers, " includes stage ", c.stages(),
          ", where the class token joins; set it to at most ", c.stages() - 1)};
}

std::optional<ConfigProblem> position_problem(const ModelConfig& c) {
  if (!c.mhsa_position || c.stages() > 1) return std::nullopt;
  return ConfigProblem{
      {"model.mhsa_position", "model.depth"},
      "model.mhsa_position applies to all stages except the last, but the model has only one"};
}

template <Version version>
std::optional<ConfigProblem> check_pyramid(const ModelConfig& c, const NormSchema& norm) {
  const std::vector<StageConfig> stages = stages_of(version, c);
  if (auto problem = stage_problem(c, stages)) return problem;
  if (auto problem = reduction_problem(version, c, stages)) return problem;
  if (auto problem = position_problem(c)) return problem;
  if (version == Version::kV1) {
    if (auto problem = norm_problem(c, norm)) return problem;
  }
  if (c.norm.type != "ln" && normalized_stages(c, usual_norm_stages(c)) == 0 && !c.norm.layers) {
    return ConfigProblem{{"model.norm.type"},
                         cat("no block of a model of one stage would use the normalizer '",
                             c.norm.type, "'; set model.norm.layers: 1")};
  }
  return std::nullopt;
}

template <Version version>
std::vector<NormSite> pyramid_norm_sites(const ModelConfig& c) {
  return norm_sites_of(c, stages_of(version, c), usual_norm_stages(c));
}

std::vector<Block> make_blocks(Version version, const Scope& scope, const ModelConfig& c,
                               const StageConfig& s) {
  const ReducedAttention::Options attention{
      .channels = s.channels,
      .heads = s.heads,
      .reduction = c.reduction->at(s.index),
      .qkv_bias = c.qkv_bias,
      .init = version == Version::kV1 ? ConvInit::kFanIn : ConvInit::kFanOut,
      .position = c.mhsa_position && s.index + 1 < c.stages()};
  std::vector<Block> blocks;
  for (int i = 0; i < s.depth; ++i) {
    BlockOptions o = block_options(scope, c, s, i, usual_norm_stages(c));
    o.make_attention = [&](const Scope& at) {
      return std::make_unique<ReducedAttention>(at, attention);
    };
    if (version == Version::kV2) {
      o.make_mlp = [&](const Scope& at) {
        return std::make_unique<ConvMlp>(at, ConvMlp::Options{s.channels, s.hidden});
      };
    }
    blocks.emplace_back(scope / i, o);
  }
  return blocks;
}

ConvEmbed make_embed(Version version, const Scope& scope, const ModelConfig& c, int stage) {
  const int in = stage == 0 ? c.channels : c.embed_dim.at(stage - 1);
  return {scope / cat("patch_embed", stage + 1), in, c.embed_dim.at(stage),
          embed_options(version, c, stage)};
}

template <Version version>
class PyramidTransformer final : public StagedTransformer {
 public:
  PyramidTransformer(const Scope& scope, const ModelConfig& config)
      : StagedTransformer(scope, config, check_pyramid<version>) {
    const bool is_first = version == Version::kV1, detects = config.detector.kind.has_value();
    for (const StageConfig& s : stages_of(version, config)) {
      const bool last = s.index + 1 == config.stages();
      embeds_.push_back(make_embed(version, scope, config, s.index));
      if (is_first) {
        Parameter* table =
            scope.weight("pos_embed" + s.number(), {1, s.grid.tokens() + last, s.channels},
                         InitKind::kTruncatedNormal, Decay::kYes);
        table->positions = {PositionKind::kTokens, s.grid.height, s.grid.width, last};
        // Detectors with PVT resize positions without antialiasing (Wang et al., ICCV 2021).
        positions_.emplace_back(
            table, detects ? ops::PositionFilter::kBilinear : ops::PositionFilter::kDino);
      }
      auto blocks = make_blocks(version, scope / ("block" + s.number()), config, s);
      std::unique_ptr<Normalizer> norm;
      if (!is_first || (last && !detects)) {
        norm = make_layer_norm({s.channels, s.heads, config.eps, s.grid},
                               scope / (is_first ? "norm" : "norm" + s.number()));
      }
      stages_.push_back({std::move(blocks), std::move(norm)});
    }
    if (is_first && !detects) {
      class_token_ = scope.weight("cls_token", {1, 1, config.embed_dim.at(config.stages() - 1)},
                                  InitKind::kTruncatedNormal);
    }
  }

  std::string size_problem(const ImageSize& size) const override {
    std::vector<TokenGrid> grids = grids_of(version, config_, size);
    if (class_token_) grids.back().prefix = 1;
    return stage_grid_problem(grids);
  }

 private:
  Tokens enter(Context& ctx, int stage, const Tokens& before) const override {
    const auto i = static_cast<std::size_t>(stage);
    Tokens tokens = embeds_[i].forward(ctx, before);
    if (version == Version::kV2) return tokens;
    Variable positions = positions_[i].on(ctx, tokens.grid);
    if (stage + 1 == config_.stages()) {
      if (class_token_) {
        tokens.x = ops::prepend_tokens(ctx, tokens.x, class_token_->variable);
        tokens.extra = 1;
      } else {
        positions = primitive::narrow(ctx, positions, 1, 1, positions.dim(1));
      }
    }
    tokens.x = ops::add_positions(ctx, tokens.x, positions);
    return tokens;
  }

  std::vector<ConvEmbed> embeds_;
  std::vector<LearnedPositions> positions_;  // PVT
  Parameter* class_token_ = nullptr;         // PVT, not in a detector
};

}  // namespace

ModelEntry pvt_entry() {
  return {{.family = "pvt",
           .doc = "pyramid vision transformers: each stage has fewer and wider tokens; attention "
                  "has keys from a coarser grid",
           .reads = transformer_keys({"reduction", "pos_resize", "mhsa_position"}),
           .check = check_pyramid<Version::kV1>,
           .norm_sites = pyramid_norm_sites<Version::kV1>},
          make_backbone<PyramidTransformer<Version::kV1>>};
}

ModelEntry pvt_v2_entry() {
  return {{.family = "pvt_v2",
           .doc = "pyramid vision transformers, version 2: overlapping patches, a convolution in "
                  "the MLP, no positions and no class token",
           .reads = transformer_keys({"reduction", "mhsa_position"}),
           .check = check_pyramid<Version::kV2>,
           .norm_sites = pyramid_norm_sites<Version::kV2>},
          make_backbone<PyramidTransformer<Version::kV2>>,
          {.renamed = in_pvt_v2_names}};
}

// As released. The code released with the DTN paper uses 4, 4, 5 and 8 heads instead.
std::vector<PresetSchema> pvt_presets() {
  const auto pyramid = [](const char* name, const char* family, PerStage<int> depth) {
    PresetSchema preset{staged_preset(name, family)};
    ModelConfig& m = preset.model;
    m.embed_dim = {64, 128, 320, 512};
    m.depth = std::move(depth);
    m.num_heads = {1, 2, 5, 8};
    m.mlp_ratio = {8, 8, 4, 4};
    m.reduction = PerStage<int>{8, 4, 2, 1};
    m.eps = 1e-6;
    return preset;
  };
  const auto first = [&](const char* name, PerStage<int> depth) {
    PresetSchema preset = pyramid(name, "pvt", std::move(depth));
    preset.model.pool = Pooling::kCls;
    preset.model.pos_embed = PosEmbed::kAll;
    preset.model.pos_resize = PosResize::kBilinear;
    return preset;
  };
  return {first("pvt_tiny", {2, 2, 2, 2}), first("pvt_small", {3, 4, 6, 3}),
          first("pvt_medium", {3, 4, 18, 3}), first("pvt_large", {3, 8, 27, 3}),
          pyramid("pvt_v2_b3", "pvt_v2", {3, 4, 18, 3})};
}

}  // namespace dtn
