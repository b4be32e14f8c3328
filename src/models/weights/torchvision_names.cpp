#include <algorithm>

#include "models/weights/name_maps.h"
#include "models/weights/renaming.h"

namespace dtn {
namespace {

constexpr std::string_view kLayer = "encoder.layers.encoder_layer_";
constexpr Renaming kOfVision[] = {
    {"class_token", "cls_token"},
    {"conv_proj.", "patch_embed.proj."},
    {"encoder.pos_embedding", "pos_embed"},
    {"encoder.ln.", "norm."},
    {"heads.head.", "head."},
};
constexpr Renaming kOfVisionBlock[] = {
    {"ln_1.", "norm1."},
    {"ln_2.", "norm2."},
    {"self_attention.in_proj_", "attn.qkv."},
    {"self_attention.out_proj.", "attn.proj."},
    {"mlp.0.", "mlp.fc1."},
    {"mlp.3.", "mlp.fc2."},
    {"mlp.linear_1.", "mlp.fc1."},  // before torchvision 0.14
    {"mlp.linear_2.", "mlp.fc2."},
};

std::string vision_name(std::string_view name) {
  if (!name.starts_with(kLayer)) return replace_beginning(name, kOfVision);
  const auto in = find_block(name, kLayer);
  return in ? in->block + replace_beginning(in->rest, kOfVisionBlock) : std::string(name);
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
