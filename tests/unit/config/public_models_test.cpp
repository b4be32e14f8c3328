// Public models by their timm names. tests/peers/public_models.py compares all of them with timm.
#include <set>

#include "config/presets.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

ExperimentConfig named(const std::string& name, const std::vector<std::string>& set = {}) {
  return load_experiment(find_config(name), set, fake_schemas());
}

TEST(PublicModels, EachLoadsAsConfig) {
  std::set<std::string> names;
  for (const PresetSchema& preset : preset_registry()) {
    for (const ReleaseSchema& release : preset.releases) {
      const std::string name = config::PublicModel{&preset, &release}.name();
      SCOPED_TRACE(name);
      EXPECT_TRUE(names.insert(name).second);
      const ExperimentConfig c = named(name);
      EXPECT_EQ(c.name, name);
      ModelConfig want = preset.model;
      want.num_classes = release.num_classes;
      EXPECT_EQ(c.model, want);
      EXPECT_EQ(c.data.mean, std::vector<double>(release.mean.begin(), release.mean.end()));
      EXPECT_EQ(c.data.std, std::vector<double>(release.std.begin(), release.std.end()));
      EXPECT_EQ(c.data.crop_pct, release.crop_pct);
      EXPECT_EQ(c.data.interpolation, release.interpolation);
      EXPECT_EQ(parse(to_yaml(c)), c);
    }
  }
  EXPECT_GE(names.size(), 74u);
}

TEST(PublicModels, ArchitectureNameIsFirstReleaseAndPreset) {
  EXPECT_EQ(named("vit_base_patch16_224").name, "vit_base_patch16_224.augreg2_in21k_ft_in1k");
  for (const PresetSchema& preset : preset_registry()) {
    if (preset.releases.empty()) continue;
    SCOPED_TRACE(preset.name());
    EXPECT_EQ(parse("model: {preset: " + preset.name() + "}").model, preset.model);
    EXPECT_EQ(named(preset.name()).model.preset, preset.name());
  }
}

TEST(PublicModels, HavePreprocessing) {
  const ExperimentConfig miil = named("vit_base_patch16_224_miil.in21k_ft_in1k");
  EXPECT_EQ(miil.data.interpolation, Interpolation::kBilinear);
  EXPECT_EQ(miil.data.mean, (std::vector<double>{0, 0, 0}));
  EXPECT_FALSE(miil.model.qkv_bias);
  const ExperimentConfig giant = named("vit_giant_patch14_reg4_dinov2.lvd142m");
  EXPECT_EQ(giant.model.mlp, MlpKind::kSwigluPacked);
  EXPECT_EQ(giant.model.mlp_dim(), 8192);
  EXPECT_EQ(giant.model.image_size, 518);
  EXPECT_EQ(giant.model.num_classes, 0);
}

TEST(PublicModels, ServeAsBaseWithOverrides) {
  TempFolder folder;
  const std::string file = folder.write(
      "mine.yaml", "base: deit_tiny_patch16_224.fb_in1k\nname: mine\ndata: {crop_pct: 0.875}");
  const ExperimentConfig c = named(file, {"model.image_size=384"});
  EXPECT_EQ(c.name, "mine");
  EXPECT_EQ(c.model.preset, "deit_tiny_patch16_224");
  EXPECT_EQ(c.model.image_size, 384);
  EXPECT_EQ(c.data.crop_pct, 0.875);
  EXPECT_EQ(c.data.std[0], 0.229);
  // A file of that name has priority.
  const std::string own = folder.write("deit_tiny_patch16_224.fb_in1k", "model: {preset: vit_t}");
  EXPECT_EQ(named(own).model.preset, "vit_t");
}

TEST(PublicModels, ErrorsGiveHintsAndReasons) {
  expect_contains(error_of([] { find_config("deit_smal_patch16_224.fb_in1k"); }),
                  "did you mean 'deit_small_patch16_224.fb_in1k'?");
  expect_contains(error_of([] { find_config("deit3_base_patch16_224.fb_in2k_ft_in1k"); }),
                  "did you mean 'deit3_base_patch16_224.fb_in22k_ft_in1k'?");
  expect_contains(parse_error("model: {preset: vit_smal_patch14_dinov2}"),
                  "did you mean 'vit_small_patch14_dinov2'?");
  const std::pair<const char*, const char*> others[] = {
      {"eva02_base_patch14_224.mim_in22k", "rotary"},
      {"vit_small_patch16_dinov3.lvd1689m", "rotary"},
      {"vit_base_patch16_siglip_224.webli", "pools by attention"},
      {"vit_base_patch16_rpn_224.sw_in1k", "behind the branches"},
      {"vit_relpos_base_patch16_224.sw_in1k", "relative positions of another kind"},
      {"vit_srelpos_small_patch16_224.sw_in1k", "relative positions of another kind"},
      {"vit_large_patch14_xp_224", "in parallel"},
      {"vit_base_patch16_18x2_224", "in parallel"},
      {"vit_dwee_patch16_reg1_gap_256.sbb_in1k", "a difference of two"},
      {"vit_dpwee_patch16_reg1_gap_256.sbb_in1k", "a difference of two"},
      {"vit_base_r50_s16_384.orig_in21k_ft_in1k", "a convolutional network"},
  };
  for (const auto& [name, reason] : others) {
    const std::string error = error_of([name = name] { find_config(name); });
    expect_contains(error, name);
    expect_contains(error, reason);
    expect_contains(parse_error("model: {preset: " + std::string(name) + "}"), reason);
  }
}

}  // namespace
}  // namespace dtn::testing
