#include <array>

#include "config/document.h"
#include "config/public_models.h"
#include "dtn/config/load.h"

namespace dtn {
namespace {

// The style of the released DTN code: qkv without bias, a late class token, positions only for the
// patches.
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

// DeiT in timm's implementation.
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

// Settings shared by the models with several stages.
ModelConfig staged(const char* name, const char* family) {
  ModelConfig m;
  m.preset = name;
  m.family = family;
  m.patch_size = 4;
  m.qkv_bias = true;
  m.class_token_at = 0;
  m.pool = Pooling::kMean;
  m.norm_pool = {4, 2, 1, 1};
  return m;
}

// Wang et al., Pyramid Vision Transformer, ICCV 2021, as released. The code released with the DTN
// paper uses 4, 4, 5 and 8 heads instead.
ModelConfig pyramid(const char* name, const char* family, PerStage<int> depth) {
  ModelConfig m = staged(name, family);
  m.embed_dim = {64, 128, 320, 512};
  m.depth = std::move(depth);
  m.num_heads = {1, 2, 5, 8};
  m.mlp_ratio = {8, 8, 4, 4};
  m.reduction = PerStage<int>{8, 4, 2, 1};
  m.eps = 1e-6;
  return m;
}

ModelConfig pvt(const char* name, PerStage<int> depth) {
  ModelConfig m = pyramid(name, "pvt", std::move(depth));
  m.pool = Pooling::kCls;
  m.pos_embed = PosEmbed::kAll;
  m.pos_resize = PosResize::kBilinear;
  return m;
}

// Liu et al., Swin Transformer, ICCV 2021, as released.
ModelConfig swin(const char* name, PerStage<int> depth) {
  ModelConfig m = staged(name, "swin");
  m.embed_dim = {96, 192, 384, 768};
  m.depth = std::move(depth);
  m.num_heads = {3, 6, 12, 24};
  m.window = 7;
  return m;
}

ModelConfig levit_128s() {
  ModelConfig m;
  m.preset = "levit_128s";
  m.family = "levit";
  m.embed_dim = {128, 256, 384};
  m.depth = {2, 3, 4};
  m.num_heads = {4, 6, 8};
  m.mlp_ratio = 2;
  m.class_token_at = 0;
  m.pool = Pooling::kMean;
  m.distilled = true;
  m.norm.type = "bn";
  return m;
}

ModelConfig t2t_vit_t_14() {
  ModelConfig m;
  m.preset = "t2t_vit_t_14";
  m.family = "t2t_vit";
  m.embed_dim = 384;
  m.depth = 14;
  m.num_heads = 6;
  m.mlp_ratio = 3;
  m.class_token_at = 0;
  return m;
}

ModelConfig resnet50() {
  ModelConfig m;
  m.preset = "resnet50";
  m.family = "resnet";
  m.patch_size = 4;
  m.embed_dim = {256, 512, 1024, 2048};
  m.depth = {3, 4, 6, 3};
  m.class_token_at = 0;
  m.pool = Pooling::kMean;
  m.norm.type = "bn";
  return m;
}

ModelConfig regnety_160() {
  ModelConfig m;
  m.preset = "regnety_160";
  m.family = "regnet";
  m.patch_size = 4;
  m.embed_dim = {224, 448, 1232, 3024};
  m.depth = {2, 4, 11, 1};
  m.num_heads = {2, 4, 11, 27};
  m.class_token_at = 0;
  m.pool = Pooling::kMean;
  m.norm.type = "bn";
  return m;
}

// Tay et al., Long Range Arena, ICLR 2021: models for Long ListOps, with the sizes of the paper.
ModelConfig listops(const char* name, SequenceAttentionKind kind) {
  ModelConfig m;
  m.preset = name;
  m.family = "sequence";
  m.num_classes = 10;
  m.embed_dim = 512;
  m.depth = 6;
  m.num_heads = 8;
  m.act = MlpActivation::kGeluTanh;
  m.class_token_at = 0;
  m.dropout = 0.1;
  m.eps = 1e-6;
  m.max_length = 2000;
  m.vocabulary = 17;
  m.attention.kind = kind;
  if (kind == SequenceAttentionKind::kDense) m.attention.dropout = 0.1;
  return m;
}

}  // namespace

std::span<const ModelConfig> model_presets() {
  static const std::array presets = {
      paper("vit_t", 192, 3),
      paper("vit_t_star", 192, 4),
      paper("vit_s", 384, 6),
      paper("vit_s_star", 432, 9),
      paper("vit_b", 768, 12),
      paper("vit_b_star", 768, 16),
      deit("deit_tiny", 192, 3),
      deit("deit_small", 384, 6),
      deit("deit_base", 768, 12),
      pvt("pvt_tiny", {2, 2, 2, 2}),
      pvt("pvt_small", {3, 4, 6, 3}),
      pvt("pvt_medium", {3, 4, 18, 3}),
      pvt("pvt_large", {3, 8, 27, 3}),
      pyramid("pvt_v2_b3", "pvt_v2", {3, 4, 18, 3}),
      swin("swin_t", {2, 2, 6, 2}),
      swin("swin_s", {2, 2, 18, 2}),
      levit_128s(),
      t2t_vit_t_14(),
      resnet50(),
      regnety_160(),
      listops("listops_dense", SequenceAttentionKind::kDense),
      listops("listops_bigbird", SequenceAttentionKind::kBigBird),
      listops("listops_reformer", SequenceAttentionKind::kReformer),
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
  throw ConfigError(cat("unknown model preset '", config::shown(name), "'",
                        config::did_you_mean(name, names, "."),
                        " Presets: ", config::join(short_names),
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
    // The released DTN code parses DeiT's options, but applies no mixup, no CutMix and no erasing.
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
