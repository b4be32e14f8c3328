// LeViT (Graham et al., ICCV 2021): a convolutional stem, stages of attention and MLP, attention
// that shrinks the grid between stages, mean pooling, and one or two heads. In the blocks,
// BatchNorm follows every linear layer instead of a normalizer before it. Parameter names are the
// authors'.
//
// Only the normalizers after the attention projections are norm.type. All others are BatchNorm,
// which an evaluation folds into the neighbouring layers (nn/norm_layers.h).
#include "dtn/nn/residual_stream.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/tokens.h"
#include "models/entries.h"
#include "models/image_models.h"
#include "models/levit_blocks.h"
#include "models/weights/name_maps.h"

namespace dtn {
namespace {

constexpr int kLevitStride = 16;  // of the stem

TokenGrid levit_grid(const ModelConfig& c, int stage) {
  TokenGrid grid{c.image_size.height / kLevitStride, c.image_size.width / kLevitStride};
  for (int s = 0; s < stage; ++s) grid = shrunk(grid);
  return grid;
}

std::optional<ConfigProblem> check_levit(const ModelConfig& c, const NormSchema&) {
  if (auto problem = image_size_problem(c, kLevitStride, "the stem halves the grid four times")) {
    return problem;
  }
  if (auto problem = zero_weight_problem(c, "LeViT")) return problem;
  // The widths of the stem are C / 8, C / 4, C / 2 and C. A multiple of 32 also suits the heads.
  for (int stage = 0; stage < c.stages(); ++stage) {
    const int channels = c.embed_dim.at(stage);
    if (channels % kChannelsOfSiteHead == 0) continue;
    return ConfigProblem{{"model.embed_dim"},
                         cat("model.embed_dim ", channels, " of LeViT is not a multiple of ",
                             kChannelsOfSiteHead, ", the channels of one head of its normalizers")};
  }
  return {};
}

std::vector<NormSite> levit_norm_sites(const ModelConfig& c) {
  std::vector<NormSite> sites;
  for (int stage = 0; stage < c.stages(); ++stage) {
    const std::int64_t channels = c.embed_dim.at(stage);
    const TokenGrid grid = levit_grid(c, stage);
    sites.push_back({channels, channels / kChannelsOfSiteHead, grid.height, grid.width, stage});
  }
  return sites;
}

NormConfig levit_batch_norm(const ModelConfig& c) {
  NormConfig plain;
  plain.type = "bn";
  // Options of BatchNorm at the sites apply to all BatchNorms.
  if (c.norm.type == "bn") plain.options = c.norm.options;
  return plain;
}

LevitNorms levit_norms(const ModelConfig& c, int stage) {
  return {levit_batch_norm(c), c.norm.at_stage(stage), c.eps, norm_eps_of(c)};
}

std::vector<ConvNorm> make_levit_stem(const Scope& scope, const ModelConfig& c) {
  std::vector<ConvNorm> stem;
  std::int64_t in = c.channels;
  for (int i = 0; i < 4; ++i) {
    const std::int64_t out = c.embed_dim.at(0) >> (3 - i);
    const Scope unit = scope / (2 * i);
    stem.emplace_back(unit / "c", unit / "bn", in,
                      TokenConv::Options{.kernel = 3, .stride = 2, .padding = 1},
                      OutputNorm{levit_batch_norm(c), {out, 1, c.eps}});
    in = out;
  }
  return stem;
}

class Levit final : public ImageBackbone {
 public:
  Levit(const Scope& scope, const ModelConfig& config)
      : ImageBackbone(scope, config, check_levit),
        stem_(make_levit_stem(scope / "patch_embed", config)) {
    const Scope blocks = scope / "blocks";
    for (int stage = 0; stage < config_.stages(); ++stage) {
      if (stage > 0) add_shrink(blocks, stage);
      add_stage(blocks, stage);
      stage_ends_.push_back(blocks_.size());
    }
  }

  Features forward(Context& ctx, const Fields& fields) override {
    Tokens x = image_as_tokens(ctx, image_of(fields));
    for (std::size_t i = 0; i < stem_.size(); ++i) {
      if (i > 0) x.x = ops::hardswish(ctx, x.x);
      x = stem_[i].forward(ctx, x);
    }
    Features features;
    std::size_t at = 0;
    for (const std::size_t end : stage_ends_) {
      for (; at < end; ++at) {
        const LevitBlock* block = blocks_[at].get();
        const auto run = [block](Context& inner, const Variable& tokens) {
          return block->forward(inner, tokens);
        };
        x = {run_block(ctx, x.x, run), block->grid()};
      }
      features.push_back(x);
    }
    return features;
  }
  Variable pooled(Context& ctx, const Fields& fields) override {
    return ops::mean_token(ctx, forward(ctx, fields).back().x);
  }
  // The same vector for each head.
  std::vector<Variable> pooled_each(Context& ctx, const Fields& fields) override {
    return std::vector<Variable>(config_.distilled ? 2 : 1, pooled(ctx, fields));
  }
  std::string size_problem(const ImageSize& size) const override {
    if (size == config_.image_size) return {};
    const TokenGrid grid = levit_grid(config_, 0);
    return cat("the attention biases of LeViT are learned for a grid of ", grid.height, " x ",
               grid.width, " tokens");
  }
  std::vector<StageShape> stages() const override {
    std::vector<StageShape> shapes;
    for (int s = 0; s < config_.stages(); ++s) {
      shapes.push_back({config_.embed_dim.at(s), kLevitStride << s});
    }
    return shapes;
  }
  std::vector<LayerInfo> layers() const override {
    std::vector<LayerInfo> layers;
    for (const auto& block : blocks_) block->describe(layers);
    return layers;
  }
  // `head` and, with model.distilled, `head_dist`: each is a BatchNorm and a linear layer.
  std::vector<ClassHead> make_heads(const Scope& scope, int classes) const override {
    std::vector<ClassHead> heads;
    const NormShape shape{config_.embed_dim.at(config_.stages() - 1), 1, config_.eps};
    for (const char* name : {"head", "head_dist"}) {
      const auto layers = std::make_shared<NormLinear>(scope / name / "bn", scope / name / "l",
                                                       levit_batch_norm(config_), shape, classes);
      heads.push_back(
          [layers](Context& ctx, const Variable& x) { return layers->forward(ctx, x); });
      if (!config_.distilled) break;
    }
    return heads;
  }

 private:
  // Adds the shrinking attention from the previous stage to `stage`, and its MLP.
  void add_shrink(const Scope& blocks, int stage) {
    const TokenGrid grid = levit_grid(config_, stage - 1);
    blocks_.push_back(make_levit_shrink(next(blocks), config_.embed_dim.at(stage - 1),
                                        config_.embed_dim.at(stage), grid,
                                        levit_norms(config_, stage)));
    add_mlp(blocks, stage);
  }
  void add_stage(const Scope& blocks, int stage) {
    for (int i = 0; i < config_.depth.at(stage); ++i) {
      blocks_.push_back(make_levit_attention(
          next(blocks), config_.embed_dim.at(stage), config_.num_heads.at(stage),
          levit_grid(config_, stage), levit_norms(config_, stage)));
      add_mlp(blocks, stage);
    }
  }
  void add_mlp(const Scope& blocks, int stage) {
    const std::int64_t channels = config_.embed_dim.at(stage);
    const auto hidden =
        static_cast<std::int64_t>(static_cast<double>(channels) * config_.mlp_ratio.at(stage));
    blocks_.push_back(make_levit_mlp(next(blocks), channels, hidden, levit_grid(config_, stage),
                                     levit_norms(config_, stage)));
  }
  Scope next(const Scope& blocks) const { return blocks / static_cast<int>(blocks_.size()); }

  std::vector<ConvNorm> stem_;
  std::vector<std::unique_ptr<LevitBlock>> blocks_;
  std::vector<std::size_t> stage_ends_;  // number of blocks up to the end of each stage
};

}  // namespace

ModelEntry levit_entry() {
  return {{.family = "levit",
           .doc = "LeViT: a stem of convolutions, attention that shrinks the grid between stages, "
                  "BatchNorm; norm.type follows the projection of each attention",
           .reads = {"image_size", "channels", "num_heads", "mlp_ratio", "distilled",
                     "init_image_size"},
           .check = check_levit,
           .norm_sites = levit_norm_sites},
          make_backbone<Levit>,
          {.renamed = levit_in_its_names, .skips = is_levit_index}};
}

std::vector<PresetSchema> levit_presets() {
  return {{{.preset = "levit_128s",
            .family = "levit",
            .embed_dim = {128, 256, 384},
            .depth = {2, 3, 4},
            .num_heads = {4, 6, 8},
            .mlp_ratio = 2,
            .distilled = true,
            .class_token_at = 0,
            .pool = Pooling::kMean,
            .norm = {.type = "bn"}}}};
}

}  // namespace dtn
