// Encoder-decoders from image to image (Ronneberger, Fischer and Brox, "U-Net", MICCAI 2015), with
// any normalizers and, in place of the encoder's features, its moments in the decoder: positional
// normalization and moment shortcuts (Li, Wu, Weinberger and Belongie, "Positional normalization",
// NeurIPS 2019).
//
// Level l has the grid of the image / 2^l. Each level of the encoder is a chain of ConvUnits, whose
// first has the stride 2 except at level 0. Residual blocks follow on the coarsest level. Then the
// decoder upsamples to one level after the other, joins what the shortcut brings and runs that
// level's ConvUnits. A convolution makes the output, to which `residual` adds the input.
#include <cmath>
#include <utility>

#include "dtn/config/condition_field.h"
#include "dtn/nn/initializers.h"
#include "dtn/nn/moments.h"
#include "dtn/ops/convolution.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "models/entries.h"
#include "models/image_models.h"
#include "models/unet/conv_unit.h"
#include "models/unet/unet_condition.h"
#include "models/unet/unet_config.h"

namespace dtn {
namespace {

using Level = std::vector<ConvUnit>;

ConvUnit::Options unit_options(const ModelConfig& c, UNetHalf half, int level, std::int64_t in) {
  return {.in = in,
          .norm = unet_norm(c, half).at_stage(level),
          .shape = unet_norm_shape(c, half, level),
          .act = c.act,
          .pono_eps = c.eps};
}

Level make_encoder_level(const Scope& scope, const ModelConfig& c, int level) {
  Level units;
  const std::int64_t width = c.embed_dim.at(level);
  for (int i = 0; i < c.depth.at(level); ++i) {
    const bool enters = i == 0 && level > 0;
    const std::int64_t in = i > 0 ? width : level > 0 ? c.embed_dim.at(level - 1) : c.channels;
    ConvUnit::Options o = unit_options(c, UNetHalf::kEncoder, level, in);
    o.stride = enters ? 2 : 1;
    units.emplace_back(scope / i, o);
  }
  return units;
}

Level make_decoder_level(const Scope& scope, const ModelConfig& c, int level) {
  Level units;
  const std::int64_t width = c.embed_dim.at(level);
  const std::int64_t joined = c.shortcut == FeatureShortcut::kConcat ? width : 0;
  for (int i = 0; i < c.depth.at(level); ++i) {
    const std::int64_t in = i == 0 ? c.embed_dim.at(level + 1) + joined : width;
    units.emplace_back(scope / i, unit_options(c, UNetHalf::kDecoder, level, in));
  }
  return units;
}

std::vector<Level> make_encoder(const Scope& scope, const ModelConfig& c) {
  std::vector<Level> levels;
  for (int l = 0; l < c.stages(); ++l) levels.push_back(make_encoder_level(scope / l, c, l));
  return levels;
}

std::vector<ResidualUnits> make_middle(const Scope& scope, const ModelConfig& c) {
  std::vector<ResidualUnits> blocks;
  const int level = c.stages() - 1;
  for (int i = 0; i < c.bottleneck; ++i) {
    blocks.emplace_back(scope / i,
                        unit_options(c, UNetHalf::kDecoder, level, c.embed_dim.at(level)));
  }
  return blocks;
}

// The levels in the order of the names, from the finest; the pass runs them in reverse.
std::vector<Level> make_decoder(const Scope& scope, const ModelConfig& c) {
  std::vector<Level> levels;
  for (int l = 0; l + 1 < c.stages(); ++l) levels.push_back(make_decoder_level(scope / l, c, l));
  return levels;
}

// One for each level at which moments come back, from the finest.
std::vector<DynamicMomentShortcut> make_shortcuts(const Scope& scope, const ModelConfig& c) {
  std::vector<DynamicMomentShortcut> shortcuts;
  if (c.shortcut != FeatureShortcut::kDynamicMoments) return shortcuts;
  const int hidden = c.shortcut_hidden.value_or(c.embed_dim.at(0));
  for (int l = 0; l < c.stages() && unet_takes_moments(c, l); ++l) {
    shortcuts.emplace_back(
        scope / l, DynamicMomentShortcut::Options{.channels = c.embed_dim.at(l), .hidden = hidden});
  }
  return shortcuts;
}

TokenConv make_unet_head(const Scope& scope, const ModelConfig& c) {
  const std::int64_t width = c.embed_dim.at(0);
  const double bound = 1 / std::sqrt(9 * static_cast<double>(width));
  const Initializer weight =
      c.residual ? Initializer(InitKind::kZeros) : Initializer(uniform_within(bound));
  return {scope,
          width,
          c.out_channels.value_or(c.channels),
          {.kernel = 3, .padding = 1, .weight_init = weight}};
}

// tokens [B, h w, C] -> image [B, C, h, w]
Variable as_image(Context& ctx, const Tokens& tokens) {
  const std::int64_t batch = tokens.x.dim(0), channels = tokens.x.dim(2);
  const Variable map =
      primitive::reshape(ctx, tokens.x, {batch, tokens.grid.height, tokens.grid.width, channels});
  return primitive::permute(ctx, map, {0, 3, 1, 2});
}

class UNet final : public ImageModel {
 public:
  UNet(const Scope& scope, const ModelConfig& config)
      : config_(checked(config, check_unet, scope)),
        condition_(scope / "condition", config),
        encoder_(make_encoder(scope / "enc", config)),
        middle_(make_middle(scope / "mid", config)),
        decoder_(make_decoder(scope / "dec", config)),
        shortcuts_(make_shortcuts(scope / "shortcut", config)),
        head_(make_unet_head(scope / "head", config)) {}

  std::vector<FieldSpec> inputs() const override {
    const ModelConfig& c = config_;
    std::vector<FieldSpec> fields{{"input", {c.channels, c.image_size.height, c.image_size.width}}};
    for (FieldSpec& field : condition_fields(c)) fields.push_back(std::move(field));
    return fields;
  }
  std::int64_t output_channels() const override {
    return config_.out_channels.value_or(config_.channels);
  }
  Variable image(Context& ctx, const Fields& fields) override {
    const Encoded encoded = encode(ctx, fields);
    Tokens y = head_.forward(ctx, decode(ctx, encoded));
    if (config_.residual) {
      // Pixels have more digits than bfloat16.
      const Tensor& input = fields.at("input");
      const Variable pixels(ops::image_tokens(ctx, input, input.dtype()));
      y.x = ops::residual_add(ctx, pixels, ops::cast(ctx, y.x, input.dtype()), {});
    }
    return as_image(ctx, y);
  }
  // The encoder's levels.
  Features forward(Context& ctx, const Fields& fields) override {
    return encode(ctx, fields).features;
  }
  Variable pooled(Context& ctx, const Fields& fields) override {
    return ops::mean_token(ctx, forward(ctx, fields).back().x);
  }
  std::vector<StageShape> stages() const override {
    std::vector<StageShape> shapes;
    for (int l = 0; l < config_.stages(); ++l) shapes.push_back({config_.embed_dim.at(l), 1 << l});
    return shapes;
  }
  std::string size_problem(const ImageSize& size) const override {
    std::string problem = division_problem(size, std::int64_t{1} << (config_.stages() - 1));
    for (std::size_t l = 0; problem.empty() && l < encoder_.size(); ++l) {
      const TokenGrid grid{size.height >> l, size.width >> l};
      problem = encoder_[l].front().norm().grid_problem(grid);
      if (problem.empty() && l < decoder_.size()) {
        problem = decoder_[l].front().norm().grid_problem(grid);
      }
    }
    return problem;
  }
  std::string note() const override {
    const std::string& norm = unet_norm(config_, UNetHalf::kEncoder).type;
    if (!unet_uses(config_, "adain") || (norm != "in" && norm != "pono")) return {};
    return cat("adain takes its style from moments that model.norm: ", norm,
               " removes; use bn or none in the encoder");
  }
  std::vector<LayerInfo> layers() const override {
    std::vector<LayerInfo> layers;
    const auto add = [&](const Level& level) {
      for (const ConvUnit& unit : level) layers.push_back(unit.info());
    };
    for (const Level& level : encoder_) add(level);
    for (const ResidualUnits& block : middle_) {
      layers.push_back(block.first().info());
      layers.push_back(block.second().info());
    }
    for (auto level = decoder_.rbegin(); level != decoder_.rend(); ++level) add(*level);
    return layers;
  }
  std::vector<ClassHead> make_heads(const Scope&, int) const override {
    throw ConfigError("an image-to-image model has no head for classes; use task: translate");
  }

 private:
  struct Encoded {
    UNetCondition::Values condition;
    Features features;                  // of each level
    std::vector<TokenMoments> moments;  // of each level that takes them
    std::vector<Variable> style;        // of each level, of the style images
  };

  // The context with the condition of a half's normalizers at a level.
  Context at_level(Context& ctx, const Encoded& encoded, UNetHalf half, std::size_t level) const {
    Context inner = ctx;
    inner.condition = condition_.at(
        inner, encoded.condition, unet_norm(config_, half).type, static_cast<int>(level),
        level < encoded.style.size() ? encoded.style[level] : Variable());
    return inner;
  }

  // The input and, for adain, the style images behind it as tokens.
  Tokens entered(Context& ctx, const Fields& fields, const Encoded& encoded) const {
    const Tensor& images = fields.at("input");
    DTN_CHECK(images.rank() == 4 && images.dim(1) == config_.channels, "input ",
              to_string(images.shape()), " is not [B, ", config_.channels, ", height, width]");
    const ImageSize size(static_cast<int>(images.dim(2)), static_cast<int>(images.dim(3)));
    if (const std::string problem = size_problem(size); !problem.empty()) {
      throw ConfigError(cat("the model cannot process images of ", size, " pixels: ", problem));
    }
    Tokens x = image_as_tokens(ctx, images);
    if (!reads_style_features()) return x;
    const Tensor& style = encoded.condition.style_image;
    DTN_CHECK(style.shape() == images.shape(), "style images ", to_string(style.shape()),
              " are not of the shape of the input, ", to_string(images.shape()));
    x.x = primitive::concat(ctx, x.x, image_as_tokens(ctx, style).x, 0);
    return x;
  }

  bool reads_style_features() const {
    return unet_norm(config_, UNetHalf::kDecoder).type == "adain";
  }

  Encoded encode(Context& ctx, const Fields& fields) const {
    Encoded encoded;
    encoded.condition = condition_.read(ctx, fields);
    Tokens x = entered(ctx, fields, encoded);
    const std::int64_t batch = fields.at("input").dim(0);
    for (std::size_t l = 0; l < encoder_.size(); ++l) {
      Context inner = at_level(ctx, encoded, UNetHalf::kEncoder, l);
      TokenMoments moments;
      x = encoded_level(inner, l, x, moments);
      Tokens own = x;
      if (reads_style_features()) {
        const auto rows = [&](const Variable& v, std::int64_t first) {
          return v.defined() ? primitive::narrow(ctx, v, 0, first, first + batch) : v;
        };
        encoded.style.push_back(rows(x.x, batch));
        own.x = rows(x.x, 0);
        moments = {rows(moments.mean, 0), rows(moments.std, 0)};
      }
      encoded.features.push_back(own);
      encoded.moments.push_back(moments);
    }
    return encoded;
  }

  Tokens encoded_level(Context& ctx, std::size_t level, Tokens x, TokenMoments& moments) const {
    const Level& units = encoder_[level];
    const bool takes = unet_takes_moments(config_, static_cast<int>(level));
    for (std::size_t i = 0; i < units.size(); ++i) {
      const bool last = i + 1 == units.size();
      x = takes && last ? units[i].forward_and_moments(ctx, x, unet_has_pono(config_), moments)
                        : units[i].forward(ctx, x);
    }
    return x;
  }

  Tokens decode(Context& ctx, const Encoded& encoded) const {
    const std::size_t coarsest = encoder_.size() - 1;
    Tokens x = encoded.features.back();
    if (!middle_.empty()) {
      Context inner = at_level(ctx, encoded, UNetHalf::kDecoder, coarsest);
      for (const ResidualUnits& block : middle_) x = block.forward(inner, x);
      x.x = with_moments(inner, x, encoded, coarsest);
    }
    for (std::size_t l = coarsest; l-- > 0;) {
      Context inner = at_level(ctx, encoded, UNetHalf::kDecoder, l);
      x = joined(inner, x, encoded.features[l]);
      x = decoded_level(inner, l, std::move(x), encoded);
    }
    return x;
  }

  // Upsamples to the grid of the encoder's features, which follow with `concat`.
  Tokens joined(Context& ctx, const Tokens& coarse, const Tokens& features) const {
    const bool concat = config_.shortcut == FeatureShortcut::kConcat;
    const TokenGrid &from = coarse.grid, &to = features.grid;
    return {ops::upsample_join(ctx, coarse.x, {from.height, from.width},
                               concat ? features.x : Variable(), {to.height, to.width}),
            to};
  }

  Tokens decoded_level(Context& ctx, std::size_t level, Tokens x, const Encoded& encoded) const {
    const Level& units = decoder_[level];
    x = units.front().normalized(ctx, x);
    x.x = units.front().activated(ctx, with_moments(ctx, x, encoded, level));
    for (std::size_t i = 1; i < units.size(); ++i) x = units[i].forward(ctx, x);
    return x;
  }

  // Applies the encoder's moments of a level, if the shortcut carries them.
  Variable with_moments(Context& ctx, const Tokens& x, const Encoded& encoded,
                        std::size_t level) const {
    const TokenMoments& moments = encoded.moments[level];
    if (!unet_carries_moments(config_)) return x.x;
    if (shortcuts_.empty()) return moment_shortcut(ctx, x.x, moments.mean, moments.std);
    return shortcuts_[level].forward(ctx, x.x, x.grid, moments.mean, moments.std);
  }

  ModelConfig config_;
  UNetCondition condition_;
  std::vector<Level> encoder_;
  std::vector<ResidualUnits> middle_;
  std::vector<Level> decoder_;
  std::vector<DynamicMomentShortcut> shortcuts_;
  TokenConv head_;
};

}  // namespace

ModelEntry unet_entry() { return {unet_schema(), make_backbone<UNet>}; }

}  // namespace dtn
