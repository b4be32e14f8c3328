// Vision transformers with public weights, under their timm names: an architecture, and a tag for
// each release, as in deit_small_patch16_224.fb_in1k. From timm 1.0.31, its code
// (timm/models/vision_transformer.py and deit.py) and its list of weights.
// tests/peers/public_models.py compares each with timm.
#include <algorithm>
#include <sstream>
#include <string_view>

#include "models/entries.h"

namespace dtn {
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
  std::string_view name;
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

struct Statistics {
  std::array<double, 3> mean, std;
};
constexpr Statistics kImageNet{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
    kHalf{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
    kClip{{0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}},
    kNone{{0, 0, 0}, {1, 1, 1}};

// Releases of one network with the same classes and preprocessing.
struct Release {
  const char *architecture, *tags;
  double crop_pct;
  Statistics statistics;
  int num_classes;
  Interpolation interpolation = Interpolation::kBicubic;
};

// The releases of a network are adjacent, and timm's default is the first.
constexpr Release kReleases[] = {
    {"deit_tiny_patch16_224", "fb_in1k", 0.9, kImageNet, 1000},
    {"deit_small_patch16_224", "fb_in1k", 0.9, kImageNet, 1000},
    {"deit_base_patch16_224", "fb_in1k", 0.9, kImageNet, 1000},
    {"deit_base_patch16_384", "fb_in1k", 1, kImageNet, 1000},
    {"deit_tiny_distilled_patch16_224", "fb_in1k", 0.9, kImageNet, 1000},
    {"deit_small_distilled_patch16_224", "fb_in1k", 0.9, kImageNet, 1000},
    {"deit_base_distilled_patch16_224", "fb_in1k", 0.9, kImageNet, 1000},
    {"deit_base_distilled_patch16_384", "fb_in1k", 1, kImageNet, 1000},
    {"deit3_small_patch16_224", "fb_in1k", 0.9, kImageNet, 1000},
    {"deit3_small_patch16_224", "fb_in22k_ft_in1k", 1, kImageNet, 1000},
    {"deit3_medium_patch16_224", "fb_in1k", 0.9, kImageNet, 1000},
    {"deit3_medium_patch16_224", "fb_in22k_ft_in1k", 1, kImageNet, 1000},
    {"deit3_base_patch16_224", "fb_in1k", 0.9, kImageNet, 1000},
    {"deit3_base_patch16_224", "fb_in22k_ft_in1k", 1, kImageNet, 1000},
    {"deit3_large_patch16_224", "fb_in1k", 0.9, kImageNet, 1000},
    {"deit3_large_patch16_224", "fb_in22k_ft_in1k", 1, kImageNet, 1000},
    {"deit3_huge_patch14_224", "fb_in1k", 0.9, kImageNet, 1000},
    {"deit3_huge_patch14_224", "fb_in22k_ft_in1k", 1, kImageNet, 1000},
    {"deit3_small_patch16_384", "fb_in1k fb_in22k_ft_in1k", 1, kImageNet, 1000},
    {"deit3_base_patch16_384", "fb_in1k fb_in22k_ft_in1k", 1, kImageNet, 1000},
    {"deit3_large_patch16_384", "fb_in1k fb_in22k_ft_in1k", 1, kImageNet, 1000},
    {"vit_tiny_patch16_224", "augreg_in21k_ft_in1k", 0.9, kHalf, 1000},
    {"vit_tiny_patch16_224", "augreg_in21k", 0.9, kHalf, 21843},
    {"vit_small_patch16_224", "augreg_in21k_ft_in1k augreg_in1k", 0.9, kHalf, 1000},
    {"vit_small_patch16_224", "augreg_in21k", 0.9, kHalf, 21843},
    {"vit_small_patch16_224", "dino", 0.9, kImageNet, 0},
    {"vit_base_patch16_224",
     "augreg2_in21k_ft_in1k augreg_in21k_ft_in1k orig_in21k_ft_in1k augreg_in1k sam_in1k", 0.9,
     kHalf, 1000},
    {"vit_base_patch16_224", "orig_in21k", 0.9, kHalf, 0},
    {"vit_base_patch16_224", "augreg_in21k", 0.9, kHalf, 21843},
    {"vit_base_patch16_224", "bamboo", 1, kClip, 115217},
    {"vit_base_patch16_224", "dino mae", 0.9, kImageNet, 0},
    {"vit_large_patch16_224", "augreg_in21k_ft_in1k", 0.9, kHalf, 1000},
    {"vit_large_patch16_224", "orig_in21k", 0.9, kHalf, 0},
    {"vit_large_patch16_224", "augreg_in21k", 0.9, kHalf, 21843},
    {"vit_large_patch16_224", "mae", 0.9, kImageNet, 0},
    {"vit_tiny_patch16_384", "augreg_in21k_ft_in1k", 1, kHalf, 1000},
    {"vit_small_patch16_384", "augreg_in21k_ft_in1k augreg_in1k", 1, kHalf, 1000},
    {"vit_base_patch16_384", "augreg_in21k_ft_in1k orig_in21k_ft_in1k augreg_in1k", 1, kHalf, 1000},
    {"vit_large_patch16_384", "augreg_in21k_ft_in1k", 1, kHalf, 1000},
    {"vit_small_patch32_224", "augreg_in21k_ft_in1k", 0.9, kHalf, 1000},
    {"vit_small_patch32_224", "augreg_in21k", 0.9, kHalf, 21843},
    {"vit_base_patch32_224", "augreg_in21k_ft_in1k augreg_in1k sam_in1k", 0.9, kHalf, 1000},
    {"vit_base_patch32_224", "orig_in21k", 0.9, kHalf, 0},
    {"vit_base_patch32_224", "augreg_in21k", 0.9, kHalf, 21843},
    {"vit_small_patch32_384", "augreg_in21k_ft_in1k", 1, kHalf, 1000},
    {"vit_base_patch32_384", "augreg_in21k_ft_in1k augreg_in1k", 1, kHalf, 1000},
    {"vit_small_patch8_224", "dino", 0.9, kImageNet, 0},
    {"vit_base_patch8_224", "augreg2_in21k_ft_in1k augreg_in21k_ft_in1k", 0.9, kHalf, 1000},
    {"vit_base_patch8_224", "augreg_in21k", 0.9, kHalf, 21843},
    {"vit_base_patch8_224", "dino", 0.9, kImageNet, 0},
    {"vit_huge_patch14_224", "orig_in21k", 0.9, kHalf, 0},
    {"vit_huge_patch14_224", "mae", 0.9, kImageNet, 0},
    {"vit_base_patch16_224_miil", "in21k", 0.875, kNone, 11221, Interpolation::kBilinear},
    {"vit_base_patch16_224_miil", "in21k_ft_in1k", 0.875, kNone, 1000, Interpolation::kBilinear},
    {"vit_small_patch14_dinov2", "lvd142m", 1, kImageNet, 0},
    {"vit_base_patch14_dinov2", "lvd142m", 1, kImageNet, 0},
    {"vit_large_patch14_dinov2", "lvd142m", 1, kImageNet, 0},
    {"vit_giant_patch14_dinov2", "lvd142m", 1, kImageNet, 0},
    {"vit_small_patch14_reg4_dinov2", "lvd142m", 1, kImageNet, 0},
    {"vit_base_patch14_reg4_dinov2", "lvd142m", 1, kImageNet, 0},
    {"vit_large_patch14_reg4_dinov2", "lvd142m", 1, kImageNet, 0},
    {"vit_giant_patch14_reg4_dinov2", "lvd142m", 1, kImageNet, 0},
    {"vit_base_patch32_clip_224",
     "laion2b_ft_in12k_in1k openai_ft_in12k_in1k laion2b_ft_in1k openai_ft_in1k", 0.9, kClip, 1000},
    {"vit_base_patch32_clip_224", "laion2b laion400m_e32 openai", 0.9, kClip, 512},
    {"vit_base_patch32_clip_224", "datacompxl metaclip_2pt5b metaclip_400m", 1, kClip, 512},
    {"vit_base_patch16_clip_224", "laion2b_ft_in12k_in1k openai_ft_in12k_in1k", 0.95, kClip, 1000},
    {"vit_base_patch16_clip_224", "laion2b_ft_in1k", 1, kClip, 1000},
    {"vit_base_patch16_clip_224", "openai_ft_in1k", 0.9, kClip, 1000},
    {"vit_base_patch16_clip_224", "laion2b_ft_in12k openai_ft_in12k", 0.9, kClip, 11821},
    {"vit_base_patch16_clip_224",
     "laion2b laion400m_e32 datacompxl dfn2b metaclip_2pt5b metaclip_400m", 1, kClip, 512},
    {"vit_base_patch16_clip_224", "openai", 0.9, kClip, 512},
    {"vit_base_patch16_clip_384", "laion2b_ft_in12k_in1k laion2b_ft_in1k openai_ft_in1k", 1, kClip,
     1000},
    {"vit_base_patch16_clip_384", "openai_ft_in12k_in1k", 0.95, kClip, 1000},
    {"vit_large_patch14_clip_224", "laion2b_ft_in12k_in1k laion2b_ft_in1k", 1, kHalf, 1000},
    {"vit_large_patch14_clip_224", "openai_ft_in12k_in1k openai_ft_in1k", 1, kClip, 1000},
    {"vit_large_patch14_clip_224", "laion2b_ft_in12k", 1, kHalf, 11821},
    {"vit_large_patch14_clip_224", "openai_ft_in12k", 1, kClip, 11821},
    {"vit_large_patch14_clip_224", "laion2b", 1, kHalf, 768},
    {"vit_large_patch14_clip_224",
     "laion400m_e32 datacompxl dfn2b_s39b dfn2b metaclip_2pt5b metaclip_400m openai "
     "apple_mclip2_dfndr2b",
     1, kClip, 768},
    {"vit_large_patch14_clip_336", "laion2b_ft_in12k_in1k laion2b_ft_in1k", 1, kHalf, 1000},
    {"vit_large_patch14_clip_336", "openai_ft_in12k_in1k", 1, kClip, 1000},
    {"vit_large_patch14_clip_336", "openai", 1, kClip, 768},
    {"vit_huge_patch14_clip_224", "laion2b_ft_in12k_in1k laion2b_ft_in1k", 1, kClip, 1000},
    {"vit_huge_patch14_clip_224", "laion2b_ft_in12k", 1, kClip, 11821},
    {"vit_huge_patch14_clip_224",
     "laion2b dfn5b metaclip2_worldwide metaclip_2pt5b metaclip_altogether", 1, kClip, 1024},
    {"vit_base_patch32_clip_quickgelu_224", "laion400m_e32 openai", 0.9, kClip, 512},
    {"vit_base_patch32_clip_quickgelu_224", "metaclip_2pt5b metaclip_400m", 1, kClip, 512},
    {"vit_base_patch16_clip_quickgelu_224", "metaclip_2pt5b metaclip_400m", 1, kClip, 512},
    {"vit_base_patch16_clip_quickgelu_224", "openai", 0.9, kClip, 512},
    {"vit_large_patch14_clip_quickgelu_224", "dfn2b metaclip_2pt5b metaclip_400m openai", 1, kClip,
     768},
    {"vit_medium_patch16_gap_256", "sw_in12k_ft_in1k", 0.95, kHalf, 1000},
    {"vit_medium_patch16_gap_384", "sw_in12k_ft_in1k", 0.95, kHalf, 1000},
    {"vit_little_patch16_reg4_gap_256", "sbb_in1k", 0.95, kHalf, 1000},
    {"vit_medium_patch16_reg4_gap_256", "sbb_in12k_ft_in1k sbb_in1k", 0.95, kHalf, 1000},
    {"vit_medium_patch16_reg4_gap_256", "sbb_in12k", 0.95, kHalf, 11821},
    {"vit_mediumd_patch16_reg4_gap_256", "sbb2_e200_in12k_ft_in1k sbb_in12k_ft_in1k", 0.95, kHalf,
     1000},
    {"vit_mediumd_patch16_reg4_gap_256", "sbb2_e200_in12k sbb_in12k", 0.95, kHalf, 11821},
    {"vit_betwixt_patch16_reg4_gap_256", "sbb2_e200_in12k_ft_in1k sbb_in12k_ft_in1k sbb_in1k", 0.95,
     kHalf, 1000},
    {"vit_betwixt_patch16_reg4_gap_256", "sbb2_e200_in12k sbb_in12k", 0.95, kHalf, 11821},
};

constexpr bool has_network(const Release& release) {
  return std::ranges::find(kNetworks, std::string_view(release.architecture), &Network::name) !=
         std::end(kNetworks);
}
static_assert(std::ranges::all_of(kReleases, has_network), "a release of no network");

ModelConfig model_of(const Network& row) {
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

std::vector<PresetSchema> timm_presets() {
  std::vector<PresetSchema> presets;
  for (const Network& row : kNetworks) {
    PresetSchema preset{model_of(row)};
    for (const Release& each : kReleases) {
      if (preset.name() != each.architecture) continue;
      std::istringstream tags(each.tags);
      for (std::string tag; tags >> tag;) {
        preset.releases.push_back({tag, each.num_classes, each.crop_pct, each.statistics.mean,
                                   each.statistics.std, each.interpolation});
      }
    }
    presets.push_back(std::move(preset));
  }
  return presets;
}

std::vector<UnsupportedNetworks> timm_unsupported() {
  return {
      {"eva02", "its positions are rotary and its SwiGLU has a norm inside"},
      {"patch16_dinov3", "its positions are rotary"},
      {"_rope_", "its positions are rotary"},
      {"siglip", "it pools by attention"},
      {"_rpn_", "its norms come behind the branches"},
      {"relpos_", "its attention has relative positions of another kind"},
      {"_xp_", "its attention and MLP work in parallel"},
      {"_pwee_", "its attention and MLP work in parallel"},
      {"_18x2_", "its blocks work in parallel"},
      {"_dwee_", "its attention is a difference of two"},
      {"_dpwee_", "its attention is a difference of two"},
      {"_r26_", "a convolutional network comes before the transformer"},
      {"_r50_", "a convolutional network comes before the transformer"},
      {"_r_s16_", "a convolutional network comes before the transformer"},
  };
}

}  // namespace dtn
