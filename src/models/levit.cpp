#include "dtn/models/levit.h"

#include "dtn/nn/run_block.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/tokens.h"
#include "models/entries.h"
#include "models/image_models.h"
#include "models/levit_blocks.h"
#include "models/weights/levit_names.h"

namespace dtn {
namespace {

constexpr int kLevitStride = 16;  // of the stem

TokenGrid levit_grid(const ModelConfig& c, int stage) {
  TokenGrid grid{c.image_size.height / kLevitStride, c.image_size.width / kLevitStride};
  for (int s = 0; s < stage; ++s) grid = LevitShrink::shrunk(grid);
  return grid;
}

std::optional<ConfigProblem> check_levit(const ModelConfig& c, const NormSchema&) {
  if (auto problem = image_size_problem(c, kLevitStride, "the stem halves the grid four times")) {
    return problem;
  }
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

ModelSchema levit_schema() {
  ModelSchema s;
  s.family = "levit";
  s.doc =
      "LeViT: a stem of convolutions, attention that shrinks the grid between stages, BatchNorm; "
      "norm.type follows the projection of each attention";
  s.reads = {"image_size", "channels", "num_heads", "mlp_ratio", "distilled", "init_image_size"};
  s.check = check_levit;
  s.norm_sites = levit_norm_sites;
  return s;
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

class LevitHead final : public ClassHead {
 public:
  LevitHead(const Scope& scope, const ModelConfig& c, std::int64_t channels, int classes)
      : layers_(scope / "bn", scope / "l", levit_batch_norm(c), {channels, 1, c.eps}, classes) {}

  Variable forward(Context& ctx, const Variable& x) const override {
    return layers_.forward(ctx, x);
  }

 private:
  NormLinear layers_;
};

}  // namespace

Levit::Levit(const Scope& scope, const ModelConfig& config)
    : config_(checked(config, check_levit, scope)),
      stem_(make_levit_stem(scope / "patch_embed", config)) {
  const Scope blocks = scope / "blocks";
  for (int stage = 0; stage < config_.stages(); ++stage) {
    if (stage > 0) add_shrink(blocks, stage, levit_grid(config_, stage - 1));
    add_stage(blocks, stage, levit_grid(config_, stage));
    stage_ends_.push_back(blocks_.size());
  }
}

// Adds the shrinking attention from the previous stage to `stage`, and its MLP. `grid` is the grid
// of the previous stage.
void Levit::add_shrink(const Scope& blocks, int stage, const TokenGrid& grid) {
  const LevitNorms norms = levit_norms(config_, stage);
  const std::int64_t in = config_.embed_dim.at(stage - 1), out = config_.embed_dim.at(stage);
  const auto next = [&] { return blocks / static_cast<int>(blocks_.size()); };
  blocks_.push_back(std::make_unique<LevitShrink>(next(), in, out, grid, norms));
  const auto hidden =
      static_cast<std::int64_t>(static_cast<double>(out) * config_.mlp_ratio.at(stage));
  blocks_.push_back(
      std::make_unique<LevitMlp>(next(), out, hidden, LevitShrink::shrunk(grid), norms));
}

void Levit::add_stage(const Scope& blocks, int stage, const TokenGrid& grid) {
  const LevitNorms norms = levit_norms(config_, stage);
  const std::int64_t channels = config_.embed_dim.at(stage), heads = config_.num_heads.at(stage);
  const auto hidden =
      static_cast<std::int64_t>(static_cast<double>(channels) * config_.mlp_ratio.at(stage));
  const auto next = [&] { return blocks / static_cast<int>(blocks_.size()); };
  for (int i = 0; i < config_.depth.at(stage); ++i) {
    blocks_.push_back(std::make_unique<LevitAttention>(next(), channels, heads, grid, norms));
    blocks_.push_back(std::make_unique<LevitMlp>(next(), channels, hidden, grid, norms));
  }
}

Features Levit::forward(Context& ctx, const Fields& fields) {
  Tokens x = image_as_tokens(ctx, image_of(config_, fields));
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

Variable Levit::pooled(Context& ctx, const Fields& fields) {
  return ops::mean_token(ctx, forward(ctx, fields).back().x);
}

std::vector<Variable> Levit::pooled_each(Context& ctx, const Fields& fields) {
  const Variable mean = pooled(ctx, fields);
  return std::vector<Variable>(config_.distilled ? 2 : 1, mean);
}

std::vector<FieldSpec> Levit::inputs() const { return image_inputs(config_); }

std::vector<StageShape> Levit::stages() const {
  std::vector<StageShape> shapes;
  for (int s = 0; s < config_.stages(); ++s) {
    shapes.push_back({config_.embed_dim.at(s), kLevitStride << s});
  }
  return shapes;
}

std::vector<LayerInfo> Levit::layers() const {
  std::vector<LayerInfo> layers;
  for (const auto& block : blocks_) block->describe(layers);
  return layers;
}

std::vector<std::unique_ptr<ClassHead>> Levit::make_heads(const Scope& scope, int classes) const {
  const std::int64_t channels = config_.embed_dim.at(config_.stages() - 1);
  std::vector<std::unique_ptr<ClassHead>> heads;
  heads.push_back(std::make_unique<LevitHead>(scope / "head", config_, channels, classes));
  if (config_.distilled) {
    heads.push_back(std::make_unique<LevitHead>(scope / "head_dist", config_, channels, classes));
  }
  return heads;
}

ModelEntry levit_entry() {
  return {levit_schema(),
          [](const Scope& scope, const ModelConfig& c) -> std::unique_ptr<Backbone> {
            return std::make_unique<Levit>(scope, c);
          },
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
