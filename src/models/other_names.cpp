#include "models/other_names.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace dtn {
namespace {

struct Renaming {
  std::string_view theirs, ours;
};

// How names begin.
constexpr Renaming kBeginnings[] = {
    {"register_tokens", "reg_token"},
    {"class_embedding", "cls_token"},
    {"positional_embedding", "pos_embed"},
    {"conv1.", "patch_embed.proj."},
    {"ln_pre.", "norm_pre."},
    {"ln_post.", "norm."},
    {"transformer.resblocks.", "blocks."},
};

// What they have inside, in a block.
constexpr Renaming kParts[] = {
    {".gamma_1", ".ls1.gamma"},
    {".gamma_2", ".ls2.gamma"},
    {".ln_1.", ".norm1."},
    {".ln_2.", ".norm2."},
    {".attn.in_proj_", ".attn.qkv."},
    {".attn.out_proj.", ".attn.proj."},
    {".mlp.c_fc.", ".mlp.fc1."},
    {".mlp.c_proj.", ".mlp.fc2."},
    {".mlp.w12.", ".mlp.fc1."},
    {".mlp.w3.", ".mlp.fc2."},
};

std::string renamed(std::string name) {
  for (const Renaming& r : kBeginnings) {
    if (name.starts_with(r.theirs)) name.replace(0, r.theirs.size(), r.ours);
  }
  if (!name.starts_with("blocks.")) return name;
  for (const Renaming& r : kParts) {
    const std::size_t at = name.find(r.theirs);
    if (at != std::string::npos) name.replace(at, r.theirs.size(), r.ours);
  }
  return name;
}

// [C, K] -> [K, C], of any type.
Tensor transposed(const Tensor& matrix) {
  const std::int64_t rows = matrix.dim(0), columns = matrix.dim(1);
  const std::size_t unit = size_of(matrix.dtype());
  Tensor result = Tensor::empty({columns, rows}, matrix.dtype());
  const auto* from = static_cast<const std::byte*>(matrix.raw());
  auto* to = static_cast<std::byte*>(result.raw());
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = 0; r < rows; ++r, to += unit) {
      std::copy_n(from + static_cast<std::size_t>(r * columns + c) * unit, unit, to);
    }
  }
  return result;
}

}  // namespace

NamedTensors in_timm_names(const NamedTensors& tensors) {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) {
    if (name == "proj" && tensor.rank() == 2) {  // CLIP's, which has no bias
      result.emplace_back("head.weight", transposed(tensor));
      result.emplace_back("head.bias", Tensor::zeros({tensor.dim(1)}, DType::kFloat32));
      continue;
    }
    Tensor& ours = result.emplace_back(renamed(name), tensor).second;
    if (name == "class_embedding") ours = tensor.reshape({1, 1, -1});
    if (name == "positional_embedding" && tensor.rank() == 2) {
      ours = tensor.reshape({1, tensor.dim(0), tensor.dim(1)});
    }
  }
  return result;
}

}  // namespace dtn
