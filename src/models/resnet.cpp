// ResNet (He et al., CVPR 2016) of bottleneck blocks, built and named as in torchvision ("v1.5":
// the 3 x 3 convolutions have the strides): a 7 x 7 convolution and a max pooling, four stages,
// mean pooling, a linear head `fc`. Every normalizer is norm.type.
//
// model.embed_dim gives the output channels of the stages, four times the channels inside their
// blocks. The stem has as many channels as the blocks of the first stage have inside.
#include <algorithm>
#include <array>

#include "models/bottleneck_stages.h"
#include "models/entries.h"

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
  if (auto problem = zero_weight_problem(c, "ResNet")) return problem;
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

BottleneckStages::Parts make_resnet_parts(const Scope& scope, const ModelConfig& c) {
  BottleneckStages::Parts parts{make_resnet_stem(scope, c), true, {}, "fc"};
  for (int s = 0; s < c.stages(); ++s) {
    parts.stages.push_back(make_resnet_stage(scope / cat("layer", s + 1), c, s));
  }
  return parts;
}

std::unique_ptr<Backbone> make_resnet(const Scope& scope, const ModelConfig& c) {
  return std::make_unique<BottleneckStages>(scope, c, check_resnet, make_resnet_parts);
}

}  // namespace

ModelEntry resnet_entry() {
  return {{.family = "resnet",
           .doc = "ResNet of bottleneck blocks: convolutions, each followed by norm.type",
           .reads = {"image_size", "channels"},
           .check = check_resnet,
           .norm_sites = resnet_norm_sites},
          make_resnet};
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
