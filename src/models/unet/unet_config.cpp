#include "models/unet/unet_config.h"

#include <algorithm>

#include "core/format.h"
#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "models/entries.h"
#include "models/image_models.h"

namespace dtn {
namespace {

using Problem = std::optional<ConfigProblem>;

// Widths are divided into heads of this many channels, for DTN's heads and GroupNorm's groups.
constexpr std::int64_t kChannelsOfHead = 8;

Problem unet_size_problem(const ModelConfig& c) {
  for (int level = 0; level < c.stages(); ++level) {
    if (c.embed_dim.at(level) % kChannelsOfHead != 0) {
      return ConfigProblem{{"model.embed_dim"},
                           cat("model.embed_dim ", c.embed_dim.at(level),
                               " is not a multiple of 8, the channels of a head")};
    }
    if (c.depth.at(level) < 1) {
      return ConfigProblem{{"model.depth"}, "model.depth: each level has at least 1 convolution"};
    }
  }
  const int coarsest = c.stages() - 1;
  constexpr int kMostLevels = 12;
  if (c.stages() > kMostLevels) {
    return ConfigProblem{
        {"model.depth", "model.embed_dim"},
        cat("model.depth has ", c.stages(), " levels; at most ", kMostLevels, " are possible")};
  }
  return image_size_problem(c, 1 << coarsest,
                            cat("a network of ", c.stages(), " levels halves the image ", coarsest,
                                coarsest == 1 ? " time" : " times"));
}

Problem unet_output_problem(const ModelConfig& c) {
  const int out = c.out_channels.value_or(c.channels);
  if (!c.residual || out == c.channels) return {};
  return ConfigProblem{{"model.residual", "model.out_channels"},
                       cat("model.residual adds the input of model.channels ", c.channels,
                           " to the output of model.out_channels ", out,
                           "; they must be equal, or model.residual false")};
}

Problem unet_shortcut_problem(const ModelConfig& c) {
  const bool joins = c.stages() > 1 || (unet_carries_moments(c) && c.bottleneck > 0);
  if (c.shortcut != FeatureShortcut::kNone && !joins) {
    return ConfigProblem{{"model.shortcut", "model.depth"},
                         "model.shortcut has nothing to join, as a network of one level has no "
                         "decoder; set it to none, or give model.embed_dim several levels"};
  }
  if (c.shortcut_hidden && c.shortcut != FeatureShortcut::kDynamicMoments) {
    return ConfigProblem{{"model.shortcut_hidden", "model.shortcut"},
                         "model.shortcut_hidden is for model.shortcut: dms; remove it"};
  }
  return {};
}

// Checks the condition of normalizers that read a vector.
Problem unet_vector_problem(const ModelConfig& c) {
  if (!unet_reads_vector(c)) return {};
  if (!c.condition.from) {
    return ConfigProblem{
        {"model.decoder_norm.type", "model.norm.type"},
        cat("the normalizer '", unet_norm(c, UNetHalf::kDecoder).type,
            "' takes gains and shifts from a condition; set model.condition.from to index (the "
            "field `style`), vector (the field `vector`) or image (the field `style_image`)")};
  }
  if (*c.condition.from == ConditionFrom::kVector && !c.condition.size) {
    return ConfigProblem{{"model.condition.size", "model.condition.from"},
                         "model.condition.from: vector needs the length of the vectors; set "
                         "model.condition.size"};
  }
  if (*c.condition.from == ConditionFrom::kIndex && !c.condition.styles) {
    return ConfigProblem{{"model.condition.styles", "model.condition.from"},
                         "model.condition.from: index needs the number of indices; set "
                         "model.condition.styles"};
  }
  return {};
}

Problem unet_style_problem(const ModelConfig& c) {
  if (!unet_uses(c, "cin")) return {};
  if (!c.condition.styles) {
    return ConfigProblem{{"model.condition.styles", "model.decoder_norm.type", "model.norm.type"},
                         "the normalizer 'cin' has a gain and a shift for each style; set "
                         "model.condition.styles to their number"};
  }
  if (!c.condition.from || *c.condition.from == ConditionFrom::kImage) {
    return ConfigProblem{{"model.condition.from", "model.decoder_norm.type", "model.norm.type"},
                         "the normalizer 'cin' reads the style of a sample; set "
                         "model.condition.from to index (the field `style`) or vector (weights of "
                         "the styles, the field `vector`)"};
  }
  if (*c.condition.from == ConditionFrom::kVector && unet_reads_vector(c) &&
      c.condition.size != c.condition.styles) {
    return ConfigProblem{
        {"model.condition.size", "model.condition.styles"},
        cat("cin reads the field `vector` as weights of ", *c.condition.styles,
            " styles, and the other normalizer as a vector of model.condition.size ",
            c.condition.size.value_or(0), "; they must be equal")};
  }
  return {};
}

Problem unet_adain_problem(const ModelConfig& c) {
  const NormConfig &encoder = unet_norm(c, UNetHalf::kEncoder),
                   &decoder = unet_norm(c, UNetHalf::kDecoder);
  if (encoder.type == "adain") {
    return ConfigProblem{{"model.norm.type"},
                         "the normalizer 'adain' takes moments from the encoder's features of the "
                         "style image, so it is for model.decoder_norm"};
  }
  if (decoder.type != "adain") return {};
  if (c.condition.from != ConditionFrom::kImage) {
    return ConfigProblem{{"model.condition.from", "model.decoder_norm.type"},
                         "the normalizer 'adain' reads the field `style_image`; set "
                         "model.condition.from: image"};
  }
  const std::vector<std::string> conditional{"cin", "adain_mlp", "cbn", "adaln", "spade"};
  if (std::ranges::find(conditional, encoder.type) == conditional.end()) return {};
  return ConfigProblem{{"model.norm.type", "model.decoder_norm.type"},
                       cat("with model.decoder_norm: adain the encoder also reads the style image, "
                           "which has no condition for model.norm: ",
                           encoder.type, "; use bn or none there")};
}

Problem unet_map_problem(const ModelConfig& c) {
  if (!unet_uses(c, "spade") || c.condition.size) return {};
  return ConfigProblem{{"model.condition.size", "model.decoder_norm.type", "model.norm.type"},
                       "the normalizer 'spade' reads the field `map`; set model.condition.size to "
                       "the number of its channels or classes"};
}

std::vector<NormSite> unet_norm_sites(const ModelConfig& c) {
  std::vector<NormSite> sites;
  for (int level = 0; level < c.stages(); ++level) {
    const NormShape shape = unet_norm_shape(c, UNetHalf::kEncoder, level);
    sites.push_back({shape.channels, shape.heads, shape.grid.height, shape.grid.width, level});
  }
  return sites;
}

ModelConfig unet_preset(const char* name, int image_size, std::vector<int> widths, int depth) {
  ModelConfig c;
  c.preset = name;
  c.family = "unet";
  c.image_size = image_size;
  c.num_classes = 0;
  c.depth = PerStage<int>(std::vector<int>(widths.size(), depth));
  c.embed_dim = PerStage<int>(std::move(widths));
  c.num_heads = 1;
  c.act = MlpActivation::kRelu;
  c.pool = Pooling::kMean;  // no class token
  c.class_token_at = 0;
  c.norm.type = "bn";
  return c;
}

}  // namespace

const NormConfig& unet_norm(const ModelConfig& c, UNetHalf half) {
  return half == UNetHalf::kDecoder && c.decoder_norm ? *c.decoder_norm : c.norm;
}

NormShape unet_norm_shape(const ModelConfig& c, UNetHalf half, int level) {
  const NormConfig& norm = unet_norm(c, half);
  const std::int64_t channels = c.embed_dim.at(level);
  const std::int64_t condition = norm.type == "adain_mlp" ? c.condition.mapping
                                 : norm.type == "spade"   ? c.condition.size.value_or(0)
                                                          : condition_size(c);
  return {.channels = channels,
          .heads = channels / kChannelsOfHead,
          .eps = norm.eps.value_or(c.eps),
          .grid = {c.image_size.height >> level, c.image_size.width >> level},
          .condition = condition,
          .styles = c.condition.styles.value_or(0)};
}

bool unet_uses(const ModelConfig& c, const std::string& norm_type) {
  return unet_norm(c, UNetHalf::kEncoder).type == norm_type ||
         unet_norm(c, UNetHalf::kDecoder).type == norm_type;
}

bool unet_reads_vector(const ModelConfig& c) {
  return unet_uses(c, "adain_mlp") || unet_uses(c, "cbn") || unet_uses(c, "adaln");
}

bool unet_carries_moments(const ModelConfig& c) {
  return c.shortcut == FeatureShortcut::kMoments || c.shortcut == FeatureShortcut::kDynamicMoments;
}

bool unet_has_pono(const ModelConfig& c) { return c.pono.value_or(unet_carries_moments(c)); }

bool unet_takes_moments(const ModelConfig& c, int level) {
  if (!unet_carries_moments(c) && !unet_has_pono(c)) return false;
  return level < c.stages() - 1 || c.bottleneck > 0;
}

std::optional<ConfigProblem> check_unet(const ModelConfig& c, const NormSchema&) {
  for (const auto check :
       {unet_size_problem, unet_output_problem, unet_shortcut_problem, unet_vector_problem,
        unet_style_problem, unet_adain_problem, unet_map_problem}) {
    if (auto problem = check(c)) return problem;
  }
  return {};
}

ModelSchema unet_schema() {
  return {.family = "unet",
          .doc = "encoder-decoders of convolutions, from image to image",
          .reads = {"image_size", "channels", "act", "condition.from", "condition.size",
                    "condition.styles", "condition.mapping", "decoder_norm.type", "out_channels",
                    "bottleneck", "shortcut", "shortcut_hidden", "pono", "residual"},
          .check = check_unet,
          .task = "translate",
          .norm_sites = unet_norm_sites,
          .meets = {"none", "cin", "adain", "adain_mlp", "cbn", "spade"}};
}

std::vector<PresetSchema> unet_presets() {
  std::vector<PresetSchema> presets{{unet_preset("unet_tiny", 32, {16, 32, 64}, 2)},
                                    {unet_preset("unet_small", 128, {32, 64, 128, 256}, 2)},
                                    {unet_preset("unet_base", 256, {64, 128, 256, 512}, 2)}};
  // The generator of CycleGAN (Zhu et al., ICCV 2017), with 3 x 3 convolutions, zeros around the
  // image and upsampling in place of 7 x 7, mirrored borders and transposed convolutions.
  ModelConfig resnet = unet_preset("resnet_9", 256, {64, 128, 256}, 1);
  resnet.norm.type = "in";
  resnet.bottleneck = 9;
  resnet.shortcut = FeatureShortcut::kNone;
  presets.push_back({resnet});
  return presets;
}

}  // namespace dtn
