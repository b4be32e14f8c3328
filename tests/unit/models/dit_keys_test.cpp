// Configs of diffusion transformers: presets, keys and errors.
#include "dtn/models/backbone.h"
#include "dtn/nn/normalizer.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

const ConfigSchemas& dit_schemas() {
  static const ConfigSchemas all = [] {
    ConfigSchemas schemas = fake_schemas();
    schemas.models = model_registry().schemas();
    schemas.norms = norm_registry().schemas();
    schemas.tasks.push_back(schemas.tasks.front());
    schemas.tasks.back().name = "diffusion";
    schemas.tasks.back().own_families = true;
    return schemas;
  }();
  return all;
}

ExperimentConfig parse_text(const std::string& text) {
  return parse_experiment(text, "t.yaml", {}, dit_schemas());
}

ExperimentConfig parse_dit(const std::string& keys) {
  return parse_text("task: diffusion\nmodel: {" + keys + "}");
}

std::string error_of_text(const std::string& text) {
  return error_of([&] { parse_text(text); });
}

TEST(DitConfig, PresetsBringTheirSizes) {
  const ModelConfig m = parse_dit("preset: dit_xl_2").model;
  EXPECT_EQ(m.image_size, 32);
  EXPECT_EQ(m.channels, 4);
  EXPECT_EQ(m.num_classes, 1000);
  EXPECT_EQ(m.label_dropout, 0.1);
  EXPECT_TRUE(m.learn_sigma);
  EXPECT_EQ(m.condition.into, ConditionInto::kAdalnZero);
  EXPECT_FALSE(m.norm.affine.has_value());
  const ModelConfig tiny = parse_dit("preset: dit_tiny, norm: dtn").model;
  EXPECT_EQ(tiny.image_size, 28);
  EXPECT_EQ(tiny.channels, 1);
  EXPECT_EQ(tiny.num_classes, 10);
  EXPECT_FALSE(tiny.learn_sigma);
}

TEST(DitConfig, KeysSurviveTheFile) {
  for (const char* into : {"adaln_zero", "adaln", "in_context", "cross_attention"}) {
    const ExperimentConfig c =
        parse_dit(std::string("preset: dit_s_4, learn_sigma: false, label_dropout: 0.2, "
                              "norm: {affine: true, layers: 3}, condition: {into: ") +
                  into + "}");
    EXPECT_EQ(parse_text(to_yaml(c)), c);
    EXPECT_EQ(c.model.label_dropout, 0.2);
    EXPECT_FALSE(c.model.learn_sigma);
  }
}

TEST(DitConfig, ErrorsNameProblemAndFix) {
  struct Case {
    const char *text, *words;
  };
  for (const Case& c : {
           Case{"model: {preset: dit_tiny}", "set task: diffusion"},
           Case{"task: diffusion\nmodel: {preset: vit_t}", "dit_tiny"},
           Case{"task: diffusion\nmodel: {preset: dit_s_4, image_size: 30}",
                "the nearest such size is 32 x 32"},
           Case{"task: diffusion\nmodel: {preset: dit_s_4, embed_dim: 100}",
                "not divisible by model.num_heads 6"},
           Case{"task: diffusion\nmodel: {preset: dit_s_4, embed_dim: 90}", "multiple of 4"},
           Case{"task: diffusion\nmodel: {preset: dit_s_4, norm: {layers: 13}}",
                "model.norm.layers 13 is more than model.depth 12"},
           Case{"task: diffusion\nmodel: {preset: dit_s_4, norm: dtn, condition: {into: "
                "in_context}}",
                "set model.norm.prefix: ln, model.norm.layers: 0 or another model.condition.into"},
           Case{"task: diffusion\nmodel: {preset: dit_s_4, drop_path: 0.1}",
                "is not read by the model family"},
           Case{"model: {preset: vit_t, learn_sigma: true}", "is not read by the model family"},
           Case{"model: {preset: vit_t, condition: {into: adaln}}",
                "is not read by the model family"},
       }) {
    const std::string error = error_of_text(c.text);
    EXPECT_NE(error.find(c.words), std::string::npos) << c.text << ": " << error;
  }
  EXPECT_NO_THROW(
      parse_dit("preset: dit_s_4, norm: {type: dtn, prefix: ln}, condition: {into: in_context}"));
}

}  // namespace
}  // namespace dtn::testing
