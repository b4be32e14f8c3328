// RegNetY (Radosavovic et al., "Designing network design spaces", CVPR 2020), built and named as in
// timm: a 3 x 3 convolution, four stages of bottleneck blocks with grouped convolutions and
// squeeze-and-excitation, mean pooling, a linear head `head.fc`. The teacher of DeiT and LeViT is a
// RegNetY.
//
// model.embed_dim gives the channels of the stages, inside their blocks too; model.num_heads gives
// the groups of their convolutions.
#include <algorithm>
#include <cmath>

#include "models/bottleneck_stages.h"
#include "models/entries.h"

namespace dtn {
namespace {

constexpr std::int64_t kRegNetStem = 32;
// Squeeze-and-excitation has a quarter of a block's input channels, rounded as in Python.
std::int64_t regnet_squeeze(std::int64_t channels) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::nearbyint(0.25 * static_cast<double>(channels))));
}

std::optional<ConfigProblem> check_regnet(const ModelConfig& c, const NormSchema& norm) {
  if (norm.type != "bn") {
    return ConfigProblem{{"model.norm.type"},
                         cat("the normalizer '", norm.type,
                             "' is not available in RegNetY, which has BatchNorm only; set bn")};
  }
  if (auto problem = zero_weight_problem(c, "RegNetY")) return problem;
  for (int stage = 0; stage < c.stages(); ++stage) {
    const int channels = c.embed_dim.at(stage), groups = c.num_heads.at(stage);
    if (channels % groups == 0) continue;
    return ConfigProblem{{"model.num_heads", "model.embed_dim"},
                         cat("model.embed_dim ", channels, " does not divide into model.num_heads ",
                             groups, " groups")};
  }
  return {};
}

double regnet_eps(const ModelConfig& c) { return c.norm.eps.value_or(c.eps); }

ConvNorm make_regnet_stem(const Scope& scope, const ModelConfig& c) {
  return {scope / "conv",
          scope / "bn",
          c.channels,
          {.kernel = 3, .stride = 2, .padding = 1, .init = ConvInit::kFanOut},
          {c.norm, {kRegNetStem, 1, regnet_eps(c)}}};
}

std::vector<Bottleneck> make_regnet_stage(const Scope& scope, const ModelConfig& c, int stage) {
  Bottleneck::Options o;
  o.in = stage == 0 ? kRegNetStem : c.embed_dim.at(stage - 1);
  o.out = o.inside = c.embed_dim.at(stage);
  o.stride = 2;
  o.groups = c.num_heads.at(stage);
  o.norm = c.norm;
  o.eps = regnet_eps(c);
  o.names = ConvNames::kTimm;
  std::vector<Bottleneck> blocks;
  for (int i = 0; i < c.depth.at(stage); ++i) {
    o.squeeze = regnet_squeeze(o.in);
    blocks.emplace_back(scope / cat("b", i + 1), o);
    o.in = o.out;
    o.stride = 1;
  }
  return blocks;
}

BottleneckStages::Parts make_regnet_parts(const Scope& scope, const ModelConfig& c) {
  BottleneckStages::Parts parts{make_regnet_stem(scope / "stem", c), false, {}, "head.fc"};
  for (int s = 0; s < c.stages(); ++s) {
    parts.stages.push_back(make_regnet_stage(scope / cat("s", s + 1), c, s));
  }
  return parts;
}

std::unique_ptr<Backbone> make_regnet(const Scope& scope, const ModelConfig& c) {
  return std::make_unique<BottleneckStages>(scope, c, check_regnet, make_regnet_parts);
}

}  // namespace

ModelEntry regnet_entry() {
  return {{.family = "regnet",
           .doc = "RegNetY: convolutions in model.num_heads groups, with squeeze-and-excitation",
           .reads = {"image_size", "channels", "num_heads"},
           .check = check_regnet},
          make_regnet};
}

std::vector<PresetSchema> regnet_presets() {
  return {{{.preset = "regnety_160",
            .family = "regnet",
            .patch_size = 4,
            .embed_dim = {224, 448, 1232, 3024},
            .depth = {2, 4, 11, 1},
            .num_heads = {2, 4, 11, 27},
            .class_token_at = 0,
            .pool = Pooling::kMean,
            .norm = {.type = "bn"}}}};
}

}  // namespace dtn
