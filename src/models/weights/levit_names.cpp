#include <algorithm>

#include "models/weights/name_maps.h"
#include "models/weights/renaming.h"

namespace dtn {
namespace {

// Parts of the names inside a block.
constexpr Renaming kLevitParts[] = {
    {".proj.ln.", ".proj.1."}, {".q.ln.", ".q.1."}, {".ln1.", ".0."},
    {".ln2.", ".2."},          {".linear.", ".c."},
};
constexpr Renaming kLevitHead[] = {{".linear.", ".l."}};

// Returns the number of blocks of each stage.
std::vector<int> depths_in(const NamedTensors& tensors) {
  std::vector<int> depths;
  for (const auto& [name, tensor] : tensors) {
    const auto stage = numbered(name, "stages.");
    const auto block = stage ? numbered(stage->rest, ".blocks.") : std::nullopt;
    if (!block) continue;
    const auto s = static_cast<std::size_t>(stage->number);
    if (depths.size() <= s) depths.resize(s + 1);
    depths[s] = std::max(depths[s], block->number + 1);
  }
  return depths;
}

// Returns the index of a stage's first attention in the flat list. The shrinking attention and its
// MLP come before it, except in the first stage.
int first_block(const std::vector<int>& depths, int stage) {
  int at = 0;
  for (int s = 0; s < stage && s < static_cast<int>(depths.size()); ++s) {
    at += 2 * depths[static_cast<std::size_t>(s)] + 2;
  }
  return at;
}

// Translates the stem, stage and block parts of a name, but not the parts inside a block.
std::string flat(std::string_view name, const std::vector<int>& depths) {
  if (const auto convolution = numbered(name, "stem.conv")) {
    return cat("patch_embed.", 2 * convolution->number - 2, convolution->rest);
  }
  const auto stage = numbered(name, "stages.");
  if (!stage) return std::string(name);
  const std::string_view rest = stage->rest;
  const int first = first_block(depths, stage->number);
  constexpr std::string_view kShrink = ".downsample.attn_downsample", kMlp = ".downsample.mlp";
  if (rest.starts_with(kShrink)) return cat("blocks.", first - 2, rest.substr(kShrink.size()));
  if (rest.starts_with(kMlp)) return cat("blocks.", first - 1, ".m", rest.substr(kMlp.size()));
  const auto block = numbered(rest, ".blocks.");
  if (!block) return std::string(rest);
  const bool is_mlp = block->rest.starts_with(".mlp");
  const std::size_t part = std::string_view(is_mlp ? ".mlp" : ".attn").size();
  return cat("blocks.", first + 2 * block->number + is_mlp, ".m", block->rest.substr(part));
}

std::string levit_renamed(const std::string& theirs, const std::vector<int>& depths) {
  std::string name = flat(theirs, depths);
  if (name.starts_with("head")) {
    replace_parts(name, kLevitHead);
  } else if (name != theirs) {
    replace_parts(name, kLevitParts);
  }
  return name;
}

bool is_pointwise(const std::string& name, const Tensor& t) {
  return name.starts_with("blocks.") && t.rank() == 4 && t.dim(2) == 1 && t.dim(3) == 1;
}

}  // namespace

NamedTensors levit_in_its_names(const NamedTensors& tensors, std::vector<std::string>&) {
  const std::vector<int> depths = depths_in(tensors);
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) {
    const std::string ours = levit_renamed(name, depths);
    result.emplace_back(
        ours, is_pointwise(ours, tensor) ? tensor.reshape({tensor.dim(0), tensor.dim(1)}) : tensor);
  }
  return result;
}

bool is_levit_index(const std::string& name) { return name.ends_with(".attention_bias_idxs"); }

}  // namespace dtn
