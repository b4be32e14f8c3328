#include "models/weights/name_maps.h"

#include <algorithm>
#include <optional>

#include "core/format.h"
#include "models/weights/renaming.h"

namespace dtn {
namespace {

// Beginnings of names.
constexpr Renaming kBeginnings[] = {
    {"register_tokens", "reg_token"},
    {"class_embedding", "cls_token"},
    {"positional_embedding", "pos_embed"},
    {"conv1.", "patch_embed.proj."},
    {"ln_pre.", "norm_pre."},
    {"ln_post.", "norm."},
    {"transformer.resblocks.", "blocks."},
};

// Parts of the names inside a block.
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

std::string renamed(const std::string& theirs) {
  std::string name = replace_beginning(theirs, kBeginnings);
  if (name.starts_with("blocks.")) replace_parts(name, kParts);
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

// Leaves out the tensors with which MAE reconstructs masked patches.
NamedTensors without_decoder(const NamedTensors& tensors, std::vector<std::string>& notes) {
  const auto is_decoder = [](const auto& t) { return t.first.starts_with("decoder_"); };
  if (std::ranges::none_of(tensors, is_decoder)) return tensors;
  NamedTensors encoder = tensors;
  const std::size_t left_out = std::erase_if(
      encoder, [&](const auto& t) { return is_decoder(t) || t.first == "mask_token"; });
  notes.push_back(
      cat("decoder_*, mask_token: ", counted(left_out, "tensors"), " of MAE's decoder not used"));
  return encoder;
}

// The leading number of `name` and the part after its dot: 3 and norm1.weight of 3.norm1.weight.
struct BlockNumber {
  std::string_view number, rest;
};
std::optional<BlockNumber> split_number(std::string_view name) {
  const std::size_t dot = name.find('.');
  const std::string_view number = name.substr(0, dot);
  if (dot == std::string_view::npos || number.empty()) return {};
  if (number.find_first_not_of("0123456789") != std::string_view::npos) return {};
  return BlockNumber{number, name.substr(dot + 1)};
}

// Removes the chunk numbers of DINOv2's large models. Block numbers continue across chunks:
// blocks.1.12 is block 12.
NamedTensors without_chunks(NamedTensors tensors, std::vector<std::string>& notes) {
  constexpr std::string_view kBlocks = "blocks.";
  std::string example;
  for (auto& [name, tensor] : tensors) {
    if (!name.starts_with(kBlocks)) continue;
    const auto chunk = split_number(std::string_view(name).substr(kBlocks.size()));
    if (!chunk || !split_number(chunk->rest)) continue;
    const BlockNumber block = *split_number(chunk->rest);
    example = cat(kBlocks, chunk->number, ".", block.number, " is block ", block.number);
    name = cat(kBlocks, chunk->rest);
  }
  if (!example.empty()) notes.push_back(cat("blocks in chunks, as DINOv2 stores them: ", example));
  return tensors;
}

}  // namespace

NamedTensors in_timm_names(const NamedTensors& tensors, std::vector<std::string>& notes) {
  if (has_huggingface_names(tensors)) return huggingface_in_timm_names(tensors, notes);
  if (has_torchvision_names(tensors)) return torchvision_in_timm_names(tensors, notes);
  NamedTensors result;
  for (const auto& [name, tensor] : without_chunks(without_decoder(tensors, notes), notes)) {
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
