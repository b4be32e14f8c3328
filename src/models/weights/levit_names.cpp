#include "models/weights/levit_names.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

namespace dtn {
namespace {

struct LevitRenaming {
  std::string_view theirs, ours;
};

// Parts of the names inside a block.
constexpr LevitRenaming kLevitParts[] = {
    {".proj.ln.", ".proj.1."}, {".q.ln.", ".q.1."}, {".ln1.", ".0."},
    {".ln2.", ".2."},          {".linear.", ".c."},
};

void replace(std::string& name, const LevitRenaming& r) {
  const std::size_t at = name.find(r.theirs);
  if (at != std::string::npos) name.replace(at, r.theirs.size(), r.ours);
}

// Removes `prefix` and the number after it from the front of a name. Returns false and keeps the
// name if it begins otherwise.
bool take(std::string_view& name, std::string_view prefix, int& number) {
  if (!name.starts_with(prefix)) return false;
  const std::string_view rest = name.substr(prefix.size());
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || number < 0 || number > 1000) return false;
  name = rest.substr(static_cast<std::size_t>(end - rest.data()));
  return true;
}

// Returns the number of blocks of each stage.
std::vector<int> depths_in(const NamedTensors& tensors) {
  std::vector<int> depths;
  for (const auto& [full, tensor] : tensors) {
    std::string_view name = full;
    int stage = 0, block = 0;
    if (!take(name, "stages.", stage) || !take(name, ".blocks.", block)) continue;
    const auto s = static_cast<std::size_t>(stage);
    if (depths.size() <= s) depths.resize(s + 1);
    depths[s] = std::max(depths[s], block + 1);
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
  int number = 0;
  if (take(name, "stem.conv", number)) {
    return "patch_embed." + std::to_string(2 * number - 2) + std::string(name);
  }
  if (!take(name, "stages.", number)) return std::string(name);
  const int first = first_block(depths, number);
  const auto at = [](int block, std::string_view rest) {
    return "blocks." + std::to_string(block) + std::string(rest);
  };
  constexpr std::string_view kShrink = ".downsample.attn_downsample", kMlp = ".downsample.mlp";
  if (name.starts_with(kShrink)) return at(first - 2, name.substr(kShrink.size()));
  if (name.starts_with(kMlp)) return at(first - 1, ".m" + std::string(name.substr(kMlp.size())));
  int block = 0;
  if (!take(name, ".blocks.", block)) return std::string(name);
  const bool is_mlp = name.starts_with(".mlp");
  const std::size_t part = std::string_view(is_mlp ? ".mlp" : ".attn").size();
  return at(first + 2 * block + is_mlp, ".m" + std::string(name.substr(part)));
}

std::string levit_renamed(const std::string& theirs, const std::vector<int>& depths) {
  std::string name = flat(theirs, depths);
  if (name.starts_with("head")) {
    replace(name, {".linear.", ".l."});
  } else if (name != theirs) {
    for (const LevitRenaming& r : kLevitParts) replace(name, r);
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
