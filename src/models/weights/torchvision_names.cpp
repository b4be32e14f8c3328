#include "models/weights/torchvision_names.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "dtn/core/check.h"

namespace dtn {
namespace {

struct VisionRenaming {
  std::string_view theirs, ours;
};

constexpr std::string_view kLayer = "encoder.layers.encoder_layer_";
constexpr VisionRenaming kOfVision[] = {
    {"class_token", "cls_token"},
    {"conv_proj.", "patch_embed.proj."},
    {"encoder.pos_embedding", "pos_embed"},
    {"encoder.ln.", "norm."},
    {"heads.head.", "head."},
};
constexpr VisionRenaming kOfVisionBlock[] = {
    {"ln_1.", "norm1."},
    {"ln_2.", "norm2."},
    {"self_attention.in_proj_", "attn.qkv."},
    {"self_attention.out_proj.", "attn.proj."},
    {"mlp.0.", "mlp.fc1."},
    {"mlp.3.", "mlp.fc2."},
    {"mlp.linear_1.", "mlp.fc1."},  // before torchvision 0.14
    {"mlp.linear_2.", "mlp.fc2."},
};

std::string vision_renamed(std::string_view name, std::span<const VisionRenaming> renamings) {
  for (const VisionRenaming& r : renamings) {
    if (name.starts_with(r.theirs)) return cat(r.ours, name.substr(r.theirs.size()));
  }
  return std::string(name);
}

std::string vision_name(std::string_view name) {
  if (!name.starts_with(kLayer)) return vision_renamed(name, kOfVision);
  const std::string_view numbered = name.substr(kLayer.size());
  const std::size_t dot = numbered.find('.');
  if (dot == std::string_view::npos) return std::string(name);
  return cat("blocks.", numbered.substr(0, dot + 1),
             vision_renamed(numbered.substr(dot + 1), kOfVisionBlock));
}

}  // namespace

bool has_torchvision_names(const NamedTensors& tensors) {
  return std::ranges::any_of(tensors, [](const auto& t) { return t.first == "conv_proj.weight"; });
}

NamedTensors torchvision_in_timm_names(NamedTensors tensors, std::vector<std::string>& notes) {
  for (auto& [name, tensor] : tensors) name = vision_name(name);
  notes.emplace_back("tensor names of torchvision's vision transformers");
  return tensors;
}

}  // namespace dtn
