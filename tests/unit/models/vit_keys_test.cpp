// Configs of vision transformers: invalid combinations, and the keys that the family reads.
#include "dtn/models/backbone.h"
#include "dtn/nn/normalizer.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

ExperimentConfig parse_vit(const std::string& text, const std::vector<std::string>& set = {}) {
  ConfigSchemas schemas = fake_schemas();
  schemas.models = model_registry().schemas();
  return parse_experiment(text, "t.yaml", set, schemas);
}

TEST(VitKeys, ImpossibleCombinations) {
  struct Case {
    const char *text, *at, *what;
  };
  const Case cases[] = {
      {"model:\n  preset: vit_t\n  num_heads: 5", "3:14",
       "192 is not divisible by model.num_heads 5"},
      {"model:\n  preset: vit_t\n  embed_dim: 100", "3:14", "nearest embed_dim that is: 99"},
      {"model:\n  preset: vit_t\n  image_size: 225", "3:15", "nearest image_size that is: 224"},
      {"model:\n  preset: vit_t\n  image_size: [224, 230]", "3:15", "size that is: 224"},
      {"model: {preset: vit_t, depth: [2, 2]}", "1:31", "has one stage, not 2"},
      {"model: {preset: vit_t, embed_dim: [24, 48]}", "1:35", "has one stage, not 2"},
      {"model: {preset: vit_t, window: 7}", "1:32",
       "model.window is not read by the model family 'vit'; it is read by: swin; remove it"},
      {"model:\n  preset: vit_t\n  patch_size: 448", "3:15", "not divisible by model.patch_size"},
      {"model: {preset: vit_t, image_size: 8192, patch_size: 8}", "1:54", "1024 x 1024 patches"},
      {"model: {preset: vit_t, mlp_ratio: 0.001}", "1:35", "no hidden channel"},
      {"model: {preset: vit_t, mlp: swiglu_packed, mlp_ratio: 0.33}", "1:29", "there are 63"},
      {"model: {preset: vit_t, class_token_at: 13}", "1:40", "after the last of 12 blocks"},
      {"model: {preset: vit_t, norm: {layers: 13}}", "1:39", "more than model.depth 12"},
      {"model: {preset: vit_t, norm: {type: dtn, layers: 11}}", "1:50", "works on the token grid"},
      {"model: {preset: vit_t, pos_embed: all, norm: dtn}", "1:35", "joins (before the first"},
      {"model: {preset: deit_small, norm: {type: dtn, layers: 1}}", "1:55", "model.pool: mean"},
      {"model: {preset: deit_small, norm: dtn}", "1:35", "no block would use the normalizer"},
      {"model: {preset: deit_small, norm: dtn}", "1:35", "set model.norm.prefix: ln, "},
      {"model: {preset: deit_tiny, mhsa_position: true}", "1:43",
       "no block would use model.mhsa_position"},
      {"model: {preset: vit_t, mhsa_position: true, class_token_at: 0}", "1:39",
       "no block would use model.mhsa_position"},
      {"model: {preset: vit_t, class_token: false}", "1:37", "set model.pool: mean"},
      {"model: {preset: vit_t, pool: mean, distilled: true}", "1:47", "set model.pool: cls"},
      {"model: {preset: vit_t, norm_pre: true}", "1:34", "set model.class_token_at: 0"},
      {"model: {preset: vit_t, pool: mean, registers: 1, class_token_at: 13}", "1:66", "after the"},
      {"model: {preset: vit_t, max_length: 5}", "1:36", "it is read by: sequence; remove it"},
      {"model: {preset: vit_t, attention: {hashes: 2}}", "1:44", "model.attention.hashes is not"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const std::string error = error_of([&] { parse_vit(c.text); });
    EXPECT_TRUE(error.starts_with(cat("t.yaml:", c.at, ": "))) << c.at << "\n" << error;
    expect_contains(error, c.what);
  }
}

ConfigSchemas with_norms() {
  ConfigSchemas schemas = fake_schemas();
  schemas.models = model_registry().schemas();
  schemas.norms = norm_registry().schemas();
  schemas.tasks.front().gives_condition = true;
  return schemas;
}

ExperimentConfig parse_adaptive(const std::string& text) {
  static const ConfigSchemas schemas = with_norms();
  return parse_experiment(text, "t.yaml", {}, schemas);
}

TEST(VitCondition, KeysSurviveTheFile) {
  for (const char* text :
       {"model: {preset: vit_t, norm: adaln, condition: {from: index, styles: 2, size: 8}}\n"
        "data: {label_sets: [a, b = x y x]}",
        "model: {preset: vit_t, norm: adaln, condition: {from: vector, size: 8}}",
        "model: {preset: vit_t}\ndata: {label_sets: kind = x y}"}) {
    SCOPED_TRACE(text);
    const ExperimentConfig c = parse_adaptive(text);
    EXPECT_EQ(parse_adaptive(to_yaml(c)), c);
  }
  const ExperimentConfig c = parse_adaptive(
      "model: {preset: vit_t, norm: adaln, condition: {from: index, styles: 2}}\n"
      "data: {label_sets: [a, 'b =  x   y x ']}");
  ASSERT_EQ(c.data.label_sets.size(), 2U);
  EXPECT_TRUE(c.data.label_sets[0].names.empty());
  EXPECT_EQ(c.data.label_sets[1].names, (std::vector<std::string>{"x", "y", "x"}));
}

TEST(VitCondition, ErrorsNameProblemAndFix) {
  struct Case {
    const char *text, *words;
  };
  for (const Case& c : {
           Case{"model: {preset: vit_t, norm: adaln}", "set model.condition.from to index"},
           Case{"model: {preset: vit_t, norm: adaln, condition: {from: index}}",
                "set model.condition.styles"},
           Case{"model: {preset: vit_t, norm: adaln, condition: {from: vector}}",
                "set model.condition.size"},
           Case{
               "model: {preset: vit_t, norm: adaln, condition: {from: vector, size: 2, styles: 2}}",
               "model.condition.styles is for model.condition.from: index"},
           Case{"model: {preset: vit_t, norm: {type: adaln, affine: false}, condition: {from: "
                "index, styles: 2}}",
                "model.norm.affine: adaln takes its gain and shift from the condition"},
           Case{"model: {preset: vit_t, norm: ln, condition: {from: index, styles: 2}}",
                "model.condition.from is not read by the normalizer 'ln'; it is read by: adaln"},
           Case{"model: {preset: pvt_tiny, norm: adaln}",
                "which models of the family pvt do not read; it is for: vit"},
           Case{"model: {preset: vit_t, norm: cin}", "'cin' needs a style for every sample"},
           Case{"model: {preset: vit_t, norm: adaln, condition: {from: index, styles: 2}}\n"
                "augment: {mixup: 0.2}",
                "set augment.mixup: 0 and augment.cutmix: 0"},
           Case{"model: {preset: vit_t}\ndata: {label_sets: [a, b]}", "model.condition.styles: 2"},
           Case{"model: {preset: vit_t, norm: adaln, condition: {from: index, styles: 3}}\n"
                "data: {label_sets: [a, b]}",
                "data.label_sets has 2 sets"},
           Case{"model: {preset: vit_t}\ndata: {label_sets: [a = x y, b = x]}",
                "names 1 classes, another set 2"},
           Case{"model: {preset: vit_t}\ndata: {label_sets: [a, a]}", "the set `a` twice"},
           Case{"model: {preset: vit_t}\ndata: {label_sets: ['a b']}",
                "whose name must be letters"},
           Case{"model: {preset: vit_t}\ndata: {label_sets: ['a =']}", "no names"},
           Case{"model: {preset: vit_t}\ndata: {label_sets: []}", "at least one set"},
           Case{"model: {preset: vit_t}\ndata: {label_sets: [[a]]}", "must be a list of names"},
       }) {
    SCOPED_TRACE(c.text);
    expect_contains(error_of([&] { parse_adaptive(c.text); }), c.words);
  }
}

// A config for LayerNorm over one with a condition drops the keys of the condition.
TEST(VitCondition, AnotherNormalizerDropsTheCondition) {
  static const ConfigSchemas schemas = with_norms();
  const std::vector<std::string> set = {"model.norm=ln"};
  const ExperimentConfig c =
      parse_experiment("model: {preset: vit_t, norm: adaln, condition: {from: index, styles: 2}}",
                       "t.yaml", set, schemas);
  EXPECT_EQ(c.model.condition, ConditionConfig());
}

TEST(VitKeys, AnotherFamilyDropsTheKeysThatItDoesNotRead) {
  const char* const text =
      "model: {preset: vit_t, registers: 4, drop_path: 0.2, norm: {layers: 2}}";
  const ModelConfig swin = parse_vit(text, {"model.preset=swin_t"}).model;
  EXPECT_EQ(swin.registers, 0);
  EXPECT_EQ(swin.drop_path, 0.2);
  EXPECT_EQ(swin.norm.layers, 2);
  const ModelConfig resnet = parse_vit(text, {"model.preset=resnet50", "model.norm=gn"}).model;
  EXPECT_EQ(resnet.drop_path, 0);
  EXPECT_EQ(resnet.norm.layers, std::nullopt);
  EXPECT_EQ(parse_vit(text, {"model.preset=deit_small"}).model.registers, 4) << "the same family";
  expect_contains(error_of([&] {
                    parse_vit(text, {"model.preset=swin_t", "model.registers=0"});
                  }),
                  "--set model.registers=0: model.registers is not read by the model family "
                  "'swin'; it is read by: vit; remove it");
}

}  // namespace
}  // namespace dtn::testing
