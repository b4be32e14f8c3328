#include "dtn/models/resnet.h"

#include <algorithm>
#include <array>

#include "models/entries.h"
#include "models/image_models.h"

namespace dtn {
namespace {

constexpr std::int64_t kResNetExpansion = 4;
// Number of groups for norm.groups: heads, since ResNet has no heads.
constexpr std::int64_t kResNetGroups = 32;

std::optional<ConfigProblem> check_resnet(const ModelConfig& c, const NormSchema& norm) {
  if (norm.needs_grid) {
    return ConfigProblem{{"model.norm.type"},
                         cat("the normalizer '", norm.type,
                             "' is for transformers, but ResNet normalizes after convolutions; "
                             "choose bn, in, gn or sn, or a preset with attention")};
  }
  constexpr std::array kTypes = {"bn", "in", "gn", "sn"};
  if (std::ranges::find(kTypes, norm.type) == kTypes.end()) {
    return ConfigProblem{
        {"model.norm.type"},
        cat("the normalizer '", norm.type, "' is not one of ResNet's: bn, in, gn or sn")};
  }
  for (int stage = 0; stage < c.stages(); ++stage) {
    if (c.embed_dim.at(stage) % kResNetExpansion == 0) continue;
    return ConfigProblem{{"model.embed_dim"},
                         cat("model.embed_dim ", c.embed_dim.at(stage),
                             " is not a multiple of 4; a block has a quarter of it inside")};
  }
  return {};
}

double resnet_eps(const ModelConfig& c) { return c.norm.eps.value_or(c.eps); }

std::vector<NormSite> resnet_norm_sites(const ModelConfig& c) {
  std::vector<NormSite> sites;
  for (int stage = 0; stage < c.stages(); ++stage) {
    const std::int64_t out = c.embed_dim.at(stage);
    for (std::int64_t channels : {out / kResNetExpansion, out}) {
      sites.push_back({.channels = channels, .heads = kResNetGroups, .stage = stage});
    }
  }
  return sites;
}

ModelSchema resnet_schema() {
  ModelSchema s;
  s.family = "resnet";
  s.doc = "ResNet of bottleneck blocks: convolutions, each followed by norm.type";
  s.reads = {"image_size", "channels"};
  s.check = check_resnet;
  s.norm_sites = resnet_norm_sites;
  return s;
}

ConvNorm make_resnet_stem(const Scope& scope, const ModelConfig& c) {
  const std::int64_t width = c.embed_dim.at(0) / kResNetExpansion;
  return {scope / "conv1",
          scope / "bn1",
          c.channels,
          {.kernel = 7, .stride = 2, .padding = 3, .init = ConvInit::kFanOut},
          {c.norm.at_stage(0), {width, kResNetGroups, resnet_eps(c)}}};
}

std::vector<Bottleneck> make_resnet_stage(const Scope& scope, const ModelConfig& c, int stage) {
  Bottleneck::Options o;
  o.in = stage == 0 ? c.embed_dim.at(0) / kResNetExpansion : c.embed_dim.at(stage - 1);
  o.out = c.embed_dim.at(stage);
  o.inside = o.out / kResNetExpansion;
  o.stride = stage == 0 ? 1 : 2;
  o.norm = c.norm.at_stage(stage);
  o.heads = kResNetGroups;
  o.eps = resnet_eps(c);
  std::vector<Bottleneck> blocks;
  for (int i = 0; i < c.depth.at(stage); ++i) {
    blocks.emplace_back(scope / i, o);
    o.in = o.out;
    o.stride = 1;
  }
  return blocks;
}

std::vector<std::vector<Bottleneck>> make_resnet_stages(const Scope& scope, const ModelConfig& c) {
  std::vector<std::vector<Bottleneck>> stages;
  for (int s = 0; s < c.stages(); ++s) {
    stages.push_back(make_resnet_stage(scope / cat("layer", s + 1), c, s));
  }
  return stages;
}

}  // namespace

ResNet::ResNet(const Scope& scope, const ModelConfig& config)
    // In this order: the check first.
    : BottleneckStages{
          checked(config, check_resnet, scope),
          {make_resnet_stem(scope, config), true, make_resnet_stages(scope, config), "fc"}} {}

ModelEntry resnet_entry() {
  return {resnet_schema(),
          [](const Scope& scope, const ModelConfig& c) -> std::unique_ptr<Backbone> {
            return std::make_unique<ResNet>(scope, c);
          }};
}

std::vector<PresetSchema> resnet_presets() {
  return {{{.preset = "resnet50",
            .family = "resnet",
            .patch_size = 4,
            .embed_dim = {256, 512, 1024, 2048},
            .depth = {3, 4, 6, 3},
            .class_token_at = 0,
            .pool = Pooling::kMean,
            .norm = {.type = "bn"}}}};
}

}  // namespace dtn
