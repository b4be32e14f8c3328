// Diffusion transformers (Peebles and Xie, "Scalable diffusion models with transformers", ICCV
// 2023): a vision transformer that predicts the noise in an image from the image, the noise level
// and a label. Parameter names are those of the public code, DiT.
//
// In order: patches and fixed positions, blocks that the condition enters (dit_blocks.h), the last
// LayerNorm, modulated in the adaptive variants, a linear layer, and the patches put together.
#include <cmath>
#include <optional>
#include <utility>

#include "dtn/nn/initializers.h"
#include "dtn/nn/patch_embed.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/tokens.h"
#include "models/block_chain.h"
#include "models/dit_blocks.h"
#include "models/dit_condition.h"
#include "models/dit_config.h"
#include "models/entries.h"
#include "models/image_models.h"
#include "ops/dispatch.h"
#include "ops/gemm/linear_group.h"

namespace dtn {
namespace {

// Fills table [1, h w, D]. The first half of the channels encodes the column, the second half the
// row: with n = D / 4, n sines and then n cosines of position 10000^(-k / n).
void fill_dit_positions(Tensor& table, std::int64_t columns) {
  const std::int64_t tokens = table.dim(1), n = table.dim(2) / 4;
  dispatch_real(table.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = table.data<T>();
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (const std::int64_t place : {t % columns, t / columns}) {
        for (std::int64_t k = 0; k < n; ++k) {
          const double frequency =
              std::pow(10000.0, -static_cast<double>(k) / static_cast<double>(n));
          const double angle = static_cast<double>(place) * frequency;
          to[k] = static_cast<T>(std::sin(angle));
          to[n + k] = static_cast<T>(std::cos(angle));
        }
        to += 2 * n;
      }
    }
  });
}

Parameter* make_dit_positions(const Scope& scope, const ModelConfig& c) {
  const std::int64_t columns = c.grid_w();
  Parameter* p = scope.weight("pos_embed", {1, c.num_patches(), c.embed_dim},
                              [columns](Tensor& table, std::uint64_t, const std::string&) {
                                fill_dit_positions(table, columns);
                              });
  p->frozen = true;
  p->positions = {PositionKind::kSines, c.grid_h(), c.grid_w(), 0};
  return p;
}

// Linear layers whose outputs are the modulations of a block. They start at zero, so that the
// norms start without modulation and gated branches at zero. The blocks' layers follow one another
// in the store: see ops::LinearGroup.
std::vector<Linear> make_modulations(const Scope& scope, const ModelConfig& c) {
  std::vector<Linear> layers;
  if (!is_adaptive(c)) return layers;
  const int vectors = has_gates(c) ? 6 : 4;
  for (int i = 0; i < c.depth; ++i) {
    layers.emplace_back(scope / i / "adaLN_modulation" / 1, c.embed_dim, vectors * c.embed_dim,
                        Linear::Options{.init = InitKind::kZeros});
  }
  return layers;
}

std::optional<Linear> make_last_modulation(const Scope& scope, const ModelConfig& c) {
  if (!is_adaptive(c)) return {};
  return Linear(scope / "adaLN_modulation" / 1, c.embed_dim, std::int64_t{2} * c.embed_dim,
                {.init = InitKind::kZeros});
}

BlockOptions dit_block_options(const ModelConfig& c, int index) {
  BlockOptions o;
  o.attention = {.channels = c.embed_dim, .heads = c.num_heads, .qkv_bias = true};
  o.mlp = {.channels = c.embed_dim, .hidden = c.mlp_dim(), .act = MlpActivation::kGeluTanh};
  o.norm_shape = {c.embed_dim, c.num_heads, c.eps, {c.grid_h(), c.grid_w()}, has_affine_norms(c)};
  if (index < normalized_dit_blocks(c)) {
    o.norm = c.norm.at_stage(0);
    o.norm_shape.eps = c.norm.eps.value_or(c.eps);
  }
  return o;
}

template <class B>
std::vector<B> make_dit_blocks(const Scope& scope, const ModelConfig& c, bool used) {
  std::vector<B> blocks;
  for (int i = 0; used && i < c.depth; ++i) blocks.emplace_back(scope / i, dit_block_options(c, i));
  return blocks;
}

// Sets the initial values of the patch convolution, the attention and the MLPs, each weight as a
// matrix.
void use_xavier(const Scope& scope) {
  const std::string patches = scope.name("x_embedder.proj.weight"), blocks = scope.name("blocks.");
  for (Parameter& p : scope.store.parameters()) {
    const auto in = [&](const char* module) { return p.name.find(module) != std::string::npos; };
    const bool in_block = p.name.starts_with(blocks) && p.name.ends_with(".weight") &&
                          (in(".attn.") || in(".cross_attn.") || in(".mlp."));
    if (!in_block && p.name != patches) continue;
    p.init = xavier_uniform(p.shape.numel() / p.shape[0], p.shape[0]);
  }
}

// [B, h w, p p O], the channel fastest -> [B, O, p h, p w]
Variable joined_patches(Context& ctx, const Variable& x, const TokenGrid& grid,
                        std::int64_t patch) {
  const std::int64_t batch = x.dim(0), channels = x.dim(2) / (patch * patch);
  const Variable cut =
      primitive::reshape(ctx, x, {batch, grid.height, grid.width, patch, patch, channels});
  return primitive::reshape(ctx, primitive::permute(ctx, cut, {0, 5, 1, 3, 2, 4}),
                            {batch, channels, grid.height * patch, grid.width * patch});
}

// v [B, D] as one token of each sample, in the type of activations.
Variable as_token(Context& ctx, const Variable& v) {
  return primitive::reshape(ctx, primitive::cast(ctx, v, ctx.mode.compute),
                            {v.dim(0), 1, v.dim(1)});
}

class DiffusionTransformer final : public ImageModel {
 public:
  DiffusionTransformer(const Scope& scope, const ModelConfig& config)
      : config_(checked(config, check_dit, scope)),
        positions_(make_dit_positions(scope, config)),
        patch_embed_(
            scope / "x_embedder",
            {.channels = config.channels, .patch = config.patch_size, .width = config.embed_dim}),
        condition_(scope, config),
        modulations_(make_modulations(scope / "blocks", config)),
        adaptive_(make_dit_blocks<AdaptiveBlock>(scope / "blocks", config, is_adaptive(config))),
        cross_(make_dit_blocks<CrossBlock>(
            scope / "blocks", config, config.condition.into == ConditionInto::kCrossAttention)),
        plain_(make_dit_blocks<Block>(scope / "blocks", config,
                                      config.condition.into == ConditionInto::kInContext)),
        norm_(make_layer_norm({.channels = config.embed_dim,
                               .heads = config.num_heads,
                               .eps = config.eps,
                               .affine = false},
                              scope / "final_layer" / "norm_final")),
        last_modulation_(make_last_modulation(scope / "final_layer", config)),
        last_(scope / "final_layer" / "linear", config.embed_dim,
              output_channels() * config.patch_size * config.patch_size,
              {.init = InitKind::kZeros}) {
    use_xavier(scope);
  }

  std::vector<FieldSpec> inputs() const override {
    const ModelConfig& c = config_;
    std::vector<FieldSpec> fields{{"image", {c.channels, c.image_size.height, c.image_size.width}},
                                  {"timestep", {}, DType::kInt64}};
    if (c.num_classes > 0) fields.push_back({"label", {}, DType::kInt64});
    return fields;
  }
  std::int64_t output_channels() const override {
    return std::int64_t{config_.channels} * (config_.learn_sigma ? 2 : 1);
  }
  Variable image(Context& ctx, const Fields& fields) override {
    Pass pass = run(ctx, fields);
    Variable y;
    if (last_modulation_) {
      const Variable modulation = last_modulation_->forward(ctx, pass.condition);
      y = pass.stream.modulated(ctx, *norm_, modulation, pass.grid);
    } else {
      y = norm_->forward(ctx, pass.stream.sum(ctx), pass.grid);
    }
    return joined_patches(ctx, last_.forward(ctx, y), pass.grid, config_.patch_size);
  }
  // The tokens before the last LayerNorm.
  Features forward(Context& ctx, const Fields& fields) override {
    Pass pass = run(ctx, fields);
    return {{pass.stream.sum(ctx), pass.grid}};
  }
  Variable pooled(Context& ctx, const Fields& fields) override {
    return ops::mean_token(ctx, forward(ctx, fields).front().x);
  }
  std::vector<StageShape> stages() const override {
    return {{config_.embed_dim, config_.patch_size}};
  }
  std::vector<LayerInfo> layers() const override {
    std::vector<LayerInfo> layers = layers_of(plain_);
    for (const AdaptiveBlock& block : adaptive_) layers.push_back(block.info());
    for (const CrossBlock& block : cross_) layers.push_back(block.info());
    return layers;
  }
  std::vector<ClassHead> make_heads(const Scope&, int) const override {
    throw ConfigError(
        "a diffusion transformer reads labels and does not predict them, so it has no head for "
        "classes; use task: diffusion");
  }

 private:
  // The tokens after the last block, and SiLU of the condition [B, D] for adaptive variants.
  struct Pass {
    GatedStream stream;
    TokenGrid grid;
    Variable condition;
  };

  Pass run(Context& ctx, const Fields& fields) const {
    const Tokens tokens = embed(ctx, fields);
    const DitCondition::Vectors vectors = condition_.vectors(ctx, fields);
    if (!plain_.empty()) return {run_plain(ctx, tokens, vectors), tokens.grid, {}};
    if (!cross_.empty()) return {run_cross(ctx, tokens, vectors), tokens.grid, {}};
    const Variable condition = ops::silu(ctx, DitCondition::sum(ctx, vectors));
    return {run_adaptive(ctx, tokens, condition), tokens.grid, condition};
  }

  Tokens embed(Context& ctx, const Fields& fields) const {
    const ModelConfig& c = config_;
    const Tensor& images = fields.at("image");
    DTN_CHECK(images.rank() == 4 && images.dim(1) == c.channels &&
                  images.dim(2) == c.image_size.height && images.dim(3) == c.image_size.width,
              "images ", to_string(images.shape()), " are not [B, ", c.channels, ", ",
              c.image_size.height, ", ", c.image_size.width, "]");
    Tokens tokens = patch_embed_.forward(ctx, images);
    tokens.x = ops::add_positions(ctx, tokens.x, positions_->variable);
    return tokens;
  }

  GatedStream run_adaptive(Context& ctx, const Tokens& tokens, const Variable& condition) const {
    std::vector<Variable> weights, biases;
    for (const Linear& layer : modulations_) {
      weights.push_back(layer.w());
      biases.push_back(layer.b());
    }
    const ops::LinearGroup group(ctx, condition, std::move(weights), std::move(biases));
    GatedStream stream(tokens.x);
    for (std::size_t i = 0; i < adaptive_.size(); ++i) {
      const DitModulation m = modulation_of(ctx, group, i);
      if (!ctx.mode.checkpoint_blocks) {
        adaptive_[i].forward(ctx, stream, m, tokens.grid);
        continue;
      }
      const auto block = [this, i, m, grid = tokens.grid](Context& inner, const Variable& x) {
        GatedStream part(x);
        adaptive_[i].forward(inner, part, m, grid);
        return part.sum(inner);
      };
      stream.set(checkpoint(ctx, stream.sum(ctx), block));
    }
    return stream;
  }

  DitModulation modulation_of(Context& ctx, const ops::LinearGroup& group, std::size_t i) const {
    const std::int64_t d = config_.embed_dim;
    if (!has_gates(config_)) {
      auto [attention, mlp] = group.part<2>(ctx, i, {2 * d, 2 * d});
      return {attention, mlp, {}, {}};
    }
    auto [attention, attention_gate, mlp, mlp_gate] = group.part<4>(ctx, i, {2 * d, d, 2 * d, d});
    return {attention, mlp, attention_gate, mlp_gate};
  }

  GatedStream run_cross(Context& ctx, const Tokens& tokens,
                        const DitCondition::Vectors& vectors) const {
    const Variable condition = condition_tokens(ctx, vectors);
    Variable x = tokens.x;
    for (const CrossBlock& block : cross_) {
      x = run_block(ctx, x,
                    [&block, condition, grid = tokens.grid](Context& inner, const Variable& part) {
                      return block.forward(inner, part, condition, grid);
                    });
    }
    return GatedStream(x);
  }

  GatedStream run_plain(Context& ctx, const Tokens& tokens,
                        const DitCondition::Vectors& vectors) const {
    const Variable condition = condition_tokens(ctx, vectors);
    const std::int64_t count = condition.dim(1);
    const Tokens all = run_blocks(
        ctx, plain_,
        {primitive::concat(ctx, condition, tokens.x, 1), tokens.grid, static_cast<int>(count)});
    return GatedStream(primitive::narrow(ctx, all.x, 1, count, all.x.dim(1)));
  }

  // [B, 2, D]: the noise level and the label; [B, 1, D] without classes.
  static Variable condition_tokens(Context& ctx, const DitCondition::Vectors& v) {
    const Variable time = as_token(ctx, v.time);
    return v.label.defined() ? primitive::concat(ctx, time, as_token(ctx, v.label), 1) : time;
  }

  ModelConfig config_;
  Parameter* positions_;  // frozen
  PatchEmbed patch_embed_;
  DitCondition condition_;
  std::vector<Linear> modulations_;  // of the adaptive blocks
  // The blocks: one of the three has all of them.
  std::vector<AdaptiveBlock> adaptive_;
  std::vector<CrossBlock> cross_;
  std::vector<Block> plain_;
  std::unique_ptr<Normalizer> norm_;
  std::optional<Linear> last_modulation_;  // of norm_, in adaptive variants
  Linear last_;
};

}  // namespace

ModelEntry dit_entry() { return {dit_schema(), make_backbone<DiffusionTransformer>}; }

}  // namespace dtn
