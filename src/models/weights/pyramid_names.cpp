#include <algorithm>

#include "models/weights/name_maps.h"
#include "models/weights/renaming.h"

namespace dtn {
namespace {

std::string pvt_v2_name(const std::string& name) {
  constexpr std::string_view kEmbed = "patch_embed.", kConv = ".mlp.dwconv.";
  if (name.starts_with(kEmbed)) return "patch_embed1." + name.substr(kEmbed.size());
  const auto stage = numbered(name, "stages.");
  if (!stage) return name;
  const std::string number = std::to_string(stage->number + 1), rest(stage->rest);
  if (rest.starts_with(".downsample.")) {
    return "patch_embed" + number + rest.substr(std::string_view(".downsample").size());
  }
  if (rest.starts_with(".norm.")) return "norm" + number + rest.substr(5);
  if (!rest.starts_with(".blocks.")) return name;
  std::string block = "block" + number + rest.substr(std::string_view(".blocks").size());
  if (const std::size_t at = block.find(kConv); at != std::string::npos) {
    block.insert(at + kConv.size(), "dwconv.");
  }
  return block;
}

std::string swin_name(const std::string& name) {
  constexpr std::string_view kHead = "head.fc.";
  if (name.starts_with(kHead)) return "head." + name.substr(kHead.size());
  const auto layer = numbered(name, "layers.");
  if (!layer || !layer->rest.starts_with(".downsample.")) return name;
  return "layers." + std::to_string(layer->number - 1) + std::string(layer->rest);
}

template <class Renaming>
NamedTensors renamed(NamedTensors tensors, Renaming&& renaming) {
  for (auto& [name, tensor] : tensors) name = renaming(name);
  return tensors;
}

}  // namespace

NamedTensors in_pvt_v2_names(const NamedTensors& tensors, std::vector<std::string>&) {
  return renamed(tensors, pvt_v2_name);
}

NamedTensors in_swin_names(const NamedTensors& tensors, std::vector<std::string>&) {
  const bool later =
      std::ranges::any_of(tensors, [](const auto& t) { return t.first.starts_with("head.fc."); });
  return later ? renamed(tensors, swin_name) : tensors;
}

}  // namespace dtn
