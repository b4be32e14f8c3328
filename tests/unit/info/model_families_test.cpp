// Configs of the model families: presets, normalizers, errors and recipes.
#include <gtest/gtest.h>

#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/models/presets.h"
#include "dtn/tasks/registries.h"

namespace dtn {
namespace {

ExperimentConfig parse(const std::string& text) {
  return parse_experiment(text, "t.yaml", {}, standard_registries().schemas());
}

ExperimentConfig load(const char* name) {
  const ConfigSchemas schemas = standard_registries().schemas();
  return load_experiment(find_config(name, schemas), {}, schemas);
}

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(ModelFamilies, EveryPresetIsReadAndWritten) {
  for (const PresetSchema& preset : preset_registry()) {
    const ModelConfig& m = preset.model;
    SCOPED_TRACE(m.preset);
    const std::string& task = model_registry().at(m.family).schema.task;
    const ExperimentConfig c =
        parse((task.empty() ? "" : "task: " + task + "\ndata: {dataset: tensors}\n") +
              "model: {preset: " + m.preset + "}");
    EXPECT_EQ(c.model.norm.type, m.norm.type);
    EXPECT_EQ(parse(to_yaml(c)), c);
  }
}

TEST(ModelFamilies, ProgramsAddPresets) {
  Registries mine;
  const ModelConfig own{.preset = "own",
                        .family = "swin",
                        .embed_dim = {32, 64},
                        .depth = {1, 2},
                        .num_heads = {1, 2}};
  mine.presets.add({own});
  mine.presets.add({{.preset = "own_public"}, {{.tag = "a", .num_classes = 7}, {.tag = "b"}}});
  EXPECT_THROW(mine.presets.add({{.preset = "swin_t"}}), Error);
  const ConfigSchemas schemas = mine.schemas();
  const ExperimentConfig c =
      parse_experiment("model: {preset: own, window: 7}", "t.yaml", {}, schemas);
  EXPECT_EQ(c.model.family, "swin");
  EXPECT_EQ(c.model.embed_dim, own.embed_dim);
  EXPECT_EQ(load_experiment(find_config("own_public", schemas), {}, schemas).name, "own_public.a");
  EXPECT_EQ(load_experiment("own_public.b", {}, schemas).model.num_classes, 0);
  EXPECT_NE(error_of("model: {preset: own}").find("unknown model preset 'own'"), std::string::npos);
}

TEST(ModelFamilies, PresetsAreOfFamilies) {
  for (const PresetSchema& preset : preset_registry()) {
    EXPECT_NE(model_registry().find(preset.model.family), nullptr) << preset.name();
  }
}

TEST(ModelFamilies, HaveDefaultNormalizers) {
  EXPECT_EQ(parse("model: {preset: levit_128s}").model.norm.type, "bn");
  EXPECT_EQ(parse("model: {preset: resnet50}").model.norm.type, "bn");
  EXPECT_EQ(parse("model: {preset: t2t_vit_t_14}").model.norm.type, "ln");
  EXPECT_EQ(parse("model: {preset: resnet50, norm: {type: gn, groups: 16}}").model.norm.type, "gn");
  EXPECT_EQ(parse("model: {preset: levit_128s, norm: dtn}").model.norm.type, "dtn");
  EXPECT_FALSE(parse("model: {preset: levit_128s, distilled: false}").model.distilled);
  EXPECT_EQ(parse("model: {preset: levit_128s, image_size: [160, 240]}").model.image_size,
            ImageSize(160, 240));
}

TEST(ModelFamilies, ErrorsNameProblemAndFix) {
  struct Case {
    const char *text, *where, *words;
  };
  for (const Case& c : {
           Case{"model: {preset: levit_128s, image_size: 200}", "1:41", "such size is 208 x 208"},
           Case{"model: {preset: t2t_vit_t_14, image_size: [224, 230]}", "1:43", "224 x 224"},
           Case{"model: {preset: resnet50, norm: dtn}",
                "1:", "ResNet normalizes after convolutions"},
           Case{"model: {preset: resnet50, norm: {type: gn, groups: 7}}", "1:", "7 groups do not"},
           Case{"model: {preset: regnety_160, norm: in}", "1:", "BatchNorm only"},
           Case{"model: {preset: levit_128s, norm: {type: dtn, layers: 2}}",
                "1:", "model.norm.layers is not read by the model family 'levit'"},
           Case{"model: {preset: levit_128s, norm: {type: dtn, pool: 2}}",
                "1:", "is not divisible into squares"},
           Case{"model: {preset: levit_128s, drop_path: 0.1}", "1:40",
                "is not read by the model family"},
           Case{"model: {preset: resnet50, num_heads: 4}", "1:38",
                "is not read by the model family"},
           Case{"model: {preset: t2t_vit_t_14, norm: dtn}",
                "1:", "no block would use the normalizer"},
           Case{"model: {preset: t2t_vit_t_14, norm: {type: dtn, layers: 10}}",
                "1:", "set model.class_token_at and model.norm.layers to the same number"},
           Case{"model: {preset: levit_128s, depth: [2, 3]}", "1:", "a model of 2 stages"},
           Case{"model: {preset: swin_t, mhsa_position: true}", "1:40",
                "is not read by the model family"},
           Case{"model: {preset: pvt_v2_b3, depth: 2, embed_dim: 64, num_heads: 2, mlp_ratio: 4, "
                "reduction: 2, mhsa_position: true}",
                "1:110", "all stages except the last"},
       }) {
    const std::string error = error_of(c.text);
    EXPECT_NE(error.find(c.where), std::string::npos) << error;
    EXPECT_NE(error.find(c.words), std::string::npos) << error;
  }
}

TEST(ModelFamilies, RecipesOfLevit) {
  for (const char* norm : {"bn", "dtn"}) {
    const ExperimentConfig c = load(norm == std::string("bn") ? "levit_128s_bn" : "levit_128s_dtn");
    EXPECT_EQ(c.model.norm.type, norm);
    EXPECT_EQ(c.model.drop_path, 0);
    EXPECT_TRUE(c.model.distilled);
    EXPECT_EQ(c.optim.weight_decay, 0.025);
    EXPECT_EQ(c.optim.lr, 5e-4);
    EXPECT_EQ(c.optim.lr_scale_batch, 512);
    EXPECT_EQ(c.optim.clip_adaptive, 0.01);
    EXPECT_TRUE(c.optim.clip_adaptive_head);
    EXPECT_EQ(c.schedule.epochs, 1000);
    EXPECT_EQ(c.schedule.warmup_epochs, 5);
    EXPECT_EQ(c.train.batch_size, 2048);
    EXPECT_EQ(c.train.ema, 0.99996);
    EXPECT_EQ(c.data.crop_pct, 0.875);
    EXPECT_EQ(c.augment.repeats, 3);
  }
}

TEST(ModelFamilies, RecipesOfT2t) {
  const ExperimentConfig c = load("t2t_vit_t_14_dtn");
  EXPECT_EQ(c.model.class_token_at, 10);
  EXPECT_EQ(c.model.norm_layers(), 10);
  EXPECT_EQ(c.model.drop_path, 0.1);
  EXPECT_EQ(c.optim.lr_scale_batch, std::nullopt);
  EXPECT_EQ(c.schedule.epochs, 310);
  EXPECT_EQ(c.schedule.cooldown_epochs, 10);
  EXPECT_EQ(c.schedule.warmup_epochs, 10);
  EXPECT_EQ(c.schedule.min_lr, 1e-5);
  EXPECT_EQ(c.train.batch_size, 512);
  EXPECT_EQ(c.train.best, BestBy::kEma);
  EXPECT_EQ(c.augment.repeats, 1);
  EXPECT_EQ(c.data.crop_pct, 0.9);
  EXPECT_EQ(load("t2t_vit_t_14_ln").model.class_token_at, 0);
}

TEST(ModelFamilies, RecipeOfResNet) {
  const ExperimentConfig c = load("resnet50_bn");
  EXPECT_EQ(c.optim.name, "sgd");
  EXPECT_EQ(c.optim.lr, 0.1);
  EXPECT_EQ(c.optim.momentum, 0.9);
  EXPECT_EQ(c.optim.nesterov.value_or(false), false);
  EXPECT_EQ(c.optim.weight_decay, 1e-4);
  EXPECT_EQ(c.optim.decay, DecayScope::kAll);
  EXPECT_EQ(c.schedule.name, "step");
  EXPECT_EQ(c.schedule.decay_epochs, 30);
  EXPECT_EQ(c.schedule.epochs, 90);
  EXPECT_EQ(c.train.batch_size, 256);
  EXPECT_EQ(c.augment.preset, AugmentPreset::kLight);
  EXPECT_EQ(c.train.label_smoothing, 0);
}

}  // namespace
}  // namespace dtn
