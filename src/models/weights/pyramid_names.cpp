#include "models/weights/pyramid_names.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace dtn {
namespace {

// The number after `beginning` in a name, and the rest: 1 and ".blocks.0.norm1.weight" of
// "stages.1.blocks.0.norm1.weight" after "stages.".
struct Numbered {
  int number;
  std::string_view rest;
};

std::optional<Numbered> numbered(std::string_view name, std::string_view beginning) {
  if (!name.starts_with(beginning)) return {};
  name.remove_prefix(beginning.size());
  Numbered found{};
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), found.number);
  if (error != std::errc() || found.number < 0 || found.number > 1000) return {};
  found.rest = name.substr(static_cast<std::size_t>(end - name.data()));
  return found;
}

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
