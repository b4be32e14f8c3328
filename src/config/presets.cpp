#include <array>

#include "config/document.h"
#include "config/public_models.h"
#include "dtn/config/load.h"

namespace dtn {
namespace {

// The released DTN code's flavour: qkv without bias, the class token joins late, positions for the
// patches only.
ModelConfig paper(const char* name, int embed_dim, int num_heads) {
  ModelConfig m;
  m.preset = name;
  m.embed_dim = embed_dim;
  m.num_heads = num_heads;
  m.qkv_bias = false;
  m.class_token_at = 10;
  m.pos_embed = PosEmbed::kPatch;
  m.eps = 1e-5;
  return m;
}

// DeiT as timm builds it.
ModelConfig deit(const char* name, int embed_dim, int num_heads) {
  ModelConfig m;
  m.preset = name;
  m.embed_dim = embed_dim;
  m.num_heads = num_heads;
  m.qkv_bias = true;
  m.class_token_at = 0;
  m.pos_embed = PosEmbed::kAll;
  m.eps = 1e-6;
  return m;
}

}  // namespace

std::span<const ModelConfig> model_presets() {
  static const std::array presets = {
      paper("vit_t", 192, 3),      paper("vit_t_star", 192, 4), paper("vit_s", 384, 6),
      paper("vit_s_star", 432, 9), paper("vit_b", 768, 12),     paper("vit_b_star", 768, 16),
      deit("deit_tiny", 192, 3),   deit("deit_small", 384, 6),  deit("deit_base", 768, 12),
  };
  return presets;
}

const ModelConfig& model_preset(const std::string& name) {
  std::vector<std::string> short_names, names;
  for (const ModelConfig& m : model_presets()) {
    if (m.preset == name) return m;
    short_names.push_back(m.preset);
  }
  names = short_names;
  for (const ModelConfig& m : config::public_architectures()) {
    if (m.preset == name) return m;
    names.push_back(m.preset);
  }
  const std::string reason = config::reason_against(name);
  if (!reason.empty()) throw ConfigError(reason);
  throw ConfigError(cat("unknown model preset '", config::shown(name), "'; did you mean '",
                        config::nearest(name, names), "'? Presets: ", config::join(short_names),
                        ", and the architectures that dtn-info --models lists"));
}

AugmentConfig augment_preset(AugmentPreset preset) {
  AugmentConfig a;
  a.preset = preset;
  switch (preset) {
    case AugmentPreset::kNone:
    case AugmentPreset::kLight: break;
    case AugmentPreset::kDeit:
      a.policy = "rand-m9-mstd0.5-inc1";
      a.erase = 0.25;
      a.mixup = 0.8;
      a.cutmix = 1;
      a.repeats = 3;
      break;
    // The released DTN code reads DeiT's options, but mixes no batches and erases nothing.
    case AugmentPreset::kOfficial:
      a.policy = "rand-m9-mstd0.5-inc1";
      a.repeats = 3;
      break;
    // Touvron et al., "DeiT III: Revenge of the ViT", 2022.
    case AugmentPreset::kDeit3:
      a.policy = "three";
      a.color_jitter = 0.3;
      a.mixup = 0.8;
      a.cutmix = 1;
      a.repeats = 3;
      break;
  }
  return a;
}

}  // namespace dtn
