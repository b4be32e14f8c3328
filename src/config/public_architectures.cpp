// Networks of timm 1.0.31, from its code (timm/models/vision_transformer.py and deit.py).
// tests/peers/public_models.py compares each network with timm.
#include "config/public_models.h"

namespace dtn::config {
namespace {

struct Size {
  int width, heads, depth;  // C, H
  double mlp_ratio = 4;
};
constexpr Size kTiny{192, 3, 12}, kSmall{384, 6, 12}, kMedium{512, 8, 12}, kBase{768, 12, 12},
    kLarge{1024, 16, 24}, kHuge{1280, 16, 32}, kGiant{1536, 24, 40, 5.33334},
    kLittle{320, 5, 14, 5.6}, kBetwixt{640, 10, 12}, kMediumDeep{512, 8, 20};

// Options of a network besides its size.
using Options = void (*)(ModelConfig&);

void plain(ModelConfig&) {}
void distilled(ModelConfig& m) { m.distilled = true; }
void no_qkv_bias(ModelConfig& m) { m.qkv_bias = false; }

// The initial layer scale matters only for training; the authors start from 1e-4.
void deit3(ModelConfig& m) {
  m.layer_scale = 1e-4;
  m.pos_embed = PosEmbed::kPatch;
}
void dino2(ModelConfig& m) { m.layer_scale = 1e-5; }
void dino2_registers(ModelConfig& m) {
  dino2(m);
  m.registers = 4;
  m.pos_embed = PosEmbed::kPatch;
}
template <Options kRest>
void swiglu(ModelConfig& m) {
  kRest(m);
  m.mlp = MlpKind::kSwigluPacked;
  m.act = MlpActivation::kSilu;
}
void clip(ModelConfig& m) {
  m.norm_pre = true;
  m.eps = 1e-5;
}
void clip_quick(ModelConfig& m) {
  clip(m);
  m.act = MlpActivation::kQuickGelu;
}
void gap(ModelConfig& m) {
  m.pool = Pooling::kMean;
  m.qkv_bias = false;
  m.layer_scale = 1e-6;
}
void gap_registers(ModelConfig& m) {
  m.pool = Pooling::kMean;
  m.registers = 4;
  m.pos_embed = PosEmbed::kPatch;
  m.layer_scale = 1e-5;
  m.fc_norm = true;
}

struct Network {
  const char* name;
  Size size;
  int patch, image;
  Options options;
};

constexpr Network kNetworks[] = {
    {"deit_tiny_patch16_224", kTiny, 16, 224, plain},
    {"deit_small_patch16_224", kSmall, 16, 224, plain},
    {"deit_base_patch16_224", kBase, 16, 224, plain},
    {"deit_base_patch16_384", kBase, 16, 384, plain},
    {"deit_tiny_distilled_patch16_224", kTiny, 16, 224, distilled},
    {"deit_small_distilled_patch16_224", kSmall, 16, 224, distilled},
    {"deit_base_distilled_patch16_224", kBase, 16, 224, distilled},
    {"deit_base_distilled_patch16_384", kBase, 16, 384, distilled},
    {"deit3_small_patch16_224", kSmall, 16, 224, deit3},
    {"deit3_medium_patch16_224", kMedium, 16, 224, deit3},
    {"deit3_base_patch16_224", kBase, 16, 224, deit3},
    {"deit3_large_patch16_224", kLarge, 16, 224, deit3},
    {"deit3_huge_patch14_224", kHuge, 14, 224, deit3},
    {"deit3_small_patch16_384", kSmall, 16, 384, deit3},
    {"deit3_base_patch16_384", kBase, 16, 384, deit3},
    {"deit3_large_patch16_384", kLarge, 16, 384, deit3},
    {"vit_tiny_patch16_224", kTiny, 16, 224, plain},
    {"vit_small_patch16_224", kSmall, 16, 224, plain},
    {"vit_base_patch16_224", kBase, 16, 224, plain},
    {"vit_large_patch16_224", kLarge, 16, 224, plain},
    {"vit_tiny_patch16_384", kTiny, 16, 384, plain},
    {"vit_small_patch16_384", kSmall, 16, 384, plain},
    {"vit_base_patch16_384", kBase, 16, 384, plain},
    {"vit_large_patch16_384", kLarge, 16, 384, plain},
    {"vit_small_patch32_224", kSmall, 32, 224, plain},
    {"vit_base_patch32_224", kBase, 32, 224, plain},
    {"vit_small_patch32_384", kSmall, 32, 384, plain},
    {"vit_base_patch32_384", kBase, 32, 384, plain},
    {"vit_small_patch8_224", kSmall, 8, 224, plain},
    {"vit_base_patch8_224", kBase, 8, 224, plain},
    {"vit_huge_patch14_224", kHuge, 14, 224, plain},
    {"vit_base_patch16_224_miil", kBase, 16, 224, no_qkv_bias},
    {"vit_small_patch14_dinov2", kSmall, 14, 518, dino2},
    {"vit_base_patch14_dinov2", kBase, 14, 518, dino2},
    {"vit_large_patch14_dinov2", kLarge, 14, 518, dino2},
    {"vit_giant_patch14_dinov2", kGiant, 14, 518, swiglu<dino2>},
    {"vit_small_patch14_reg4_dinov2", kSmall, 14, 518, dino2_registers},
    {"vit_base_patch14_reg4_dinov2", kBase, 14, 518, dino2_registers},
    {"vit_large_patch14_reg4_dinov2", kLarge, 14, 518, dino2_registers},
    {"vit_giant_patch14_reg4_dinov2", kGiant, 14, 518, swiglu<dino2_registers>},
    {"vit_base_patch32_clip_224", kBase, 32, 224, clip},
    {"vit_base_patch16_clip_224", kBase, 16, 224, clip},
    {"vit_base_patch16_clip_384", kBase, 16, 384, clip},
    {"vit_large_patch14_clip_224", kLarge, 14, 224, clip},
    {"vit_large_patch14_clip_336", kLarge, 14, 336, clip},
    {"vit_huge_patch14_clip_224", kHuge, 14, 224, clip},
    {"vit_base_patch32_clip_quickgelu_224", kBase, 32, 224, clip_quick},
    {"vit_base_patch16_clip_quickgelu_224", kBase, 16, 224, clip_quick},
    {"vit_large_patch14_clip_quickgelu_224", kLarge, 14, 224, clip_quick},
    {"vit_medium_patch16_gap_256", kMedium, 16, 256, gap},
    {"vit_medium_patch16_gap_384", kMedium, 16, 384, gap},
    {"vit_little_patch16_reg4_gap_256", kLittle, 16, 256, gap_registers},
    {"vit_medium_patch16_reg4_gap_256", kMedium, 16, 256, gap_registers},
    {"vit_mediumd_patch16_reg4_gap_256", kMediumDeep, 16, 256, gap_registers},
    {"vit_betwixt_patch16_reg4_gap_256", kBetwixt, 16, 256, gap_registers},
};

ModelConfig made(const Network& row) {
  ModelConfig m;
  m.preset = row.name;
  m.embed_dim = row.size.width;
  m.num_heads = row.size.heads;
  m.depth = row.size.depth;
  m.mlp_ratio = row.size.mlp_ratio;
  m.patch_size = row.patch;
  m.image_size = row.image;
  m.qkv_bias = true;
  m.class_token_at = 0;
  m.pos_embed = PosEmbed::kAll;
  m.pos_resize = PosResize::kBicubicAntialias;
  m.eps = 1e-6;
  row.options(m);
  return m;
}

}  // namespace

std::span<const ModelConfig> public_architectures() {
  static const std::vector<ModelConfig> all = [] {
    std::vector<ModelConfig> models;
    for (const Network& row : kNetworks) models.push_back(made(row));
    return models;
  }();
  return all;
}

}  // namespace dtn::config
