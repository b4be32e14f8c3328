#include "dtn/models/regnet.h"

#include <algorithm>
#include <cmath>

#include "models/entries.h"
#include "models/image_models.h"

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
  for (int stage = 0; stage < c.stages(); ++stage) {
    const int channels = c.embed_dim.at(stage), groups = c.num_heads.at(stage);
    if (channels % groups == 0) continue;
    return ConfigProblem{{"model.num_heads", "model.embed_dim"},
                         cat("model.embed_dim ", channels, " does not divide into model.num_heads ",
                             groups, " groups")};
  }
  return {};
}

ModelSchema regnet_schema() {
  ModelSchema s;
  s.family = "regnet";
  s.doc = "RegNetY: convolutions in model.num_heads groups, with squeeze-and-excitation";
  s.reads = {"image_size", "channels", "num_heads"};
  s.check = check_regnet;
  return s;
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

std::vector<std::vector<Bottleneck>> make_regnet_stages(const Scope& scope, const ModelConfig& c) {
  std::vector<std::vector<Bottleneck>> stages;
  for (int s = 0; s < c.stages(); ++s) {
    stages.push_back(make_regnet_stage(scope / cat("s", s + 1), c, s));
  }
  return stages;
}

}  // namespace

RegNet::RegNet(const Scope& scope, const ModelConfig& config)
    // In this order: the check first.
    : BottleneckStages{checked(config, check_regnet, scope),
                       {make_regnet_stem(scope / "stem", config), false,
                        make_regnet_stages(scope, config), "head.fc"}} {}

ModelEntry regnet_entry() {
  return {regnet_schema(),
          [](const Scope& scope, const ModelConfig& c) -> std::unique_ptr<Backbone> {
            return std::make_unique<RegNet>(scope, c);
          }};
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
