#include "config/public_models.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "config/codec.h"

namespace dtn::config {
namespace {

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

// From the list in timm 1.0.31; tests/peers/public_models.py compares them.
const Release kReleases[] = {
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

const ModelConfig* find_architecture(std::string_view name) {
  const auto all = public_architectures();
  const auto found = std::ranges::find(all, name, &ModelConfig::preset);
  return found == all.end() ? nullptr : &*found;
}

std::vector<PublicModel> read_rows() {
  std::vector<PublicModel> models;
  for (const Release& row : kReleases) {
    std::istringstream tags(row.tags);
    for (std::string tag; tags >> tag;) {
      models.push_back({cat(row.architecture, ".", tag), find_architecture(row.architecture),
                        row.num_classes, row.crop_pct, row.statistics.mean, row.statistics.std,
                        row.interpolation});
    }
  }
  return models;
}

std::string list_text(const std::array<double, 3>& numbers) {
  return write_value(std::vector<double>(numbers.begin(), numbers.end()));
}

struct Other {
  std::string_view part;  // part of the network's name
  const char* reason;
};
constexpr Other kOthers[] = {
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

}  // namespace

std::span<const PublicModel> public_models() {
  static const std::vector<PublicModel> all = read_rows();
  return all;
}

const PublicModel* find_public_model(const std::string& name) {
  for (const PublicModel& model : public_models()) {
    if (model.name == name || model.architecture->preset == name) return &model;
  }
  return nullptr;
}

std::string reason_against(const std::string& name) {
  for (const Other& other : kOthers) {
    if (name.find(other.part) == std::string::npos) continue;
    return cat("'", shown(name), "' cannot be built here: ", other.reason,
               "; dtn-info --models lists the public models that can");
  }
  return {};
}

std::vector<std::string> public_names() {
  std::vector<std::string> names;
  for (const ModelConfig& m : public_architectures()) names.push_back(m.preset);
  for (const PublicModel& m : public_models()) names.push_back(m.name);
  return names;
}

std::string config_text(const PublicModel& model) {
  const bool bicubic = model.interpolation == Interpolation::kBicubic;
  return cat("name: ", model.name, "\nmodel:\n  preset: ", model.architecture->preset,
             "\n  num_classes: ", model.num_classes, "\ndata:\n  mean: ", list_text(model.mean),
             "\n  std: ", list_text(model.std), "\n  crop_pct: ", write_value(model.crop_pct),
             "\n  interpolation: ", bicubic ? "bicubic" : "bilinear", "\n");
}

}  // namespace dtn::config
