// Configs of image-to-image models: presets, the decoder's normalizer, conditions and errors.
#include "dtn/models/backbone.h"
#include "dtn/nn/normalizer.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

const ConfigSchemas& unet_schemas() {
  static const ConfigSchemas all = [] {
    ConfigSchemas schemas = fake_schemas();
    schemas.models = model_registry().schemas();
    schemas.norms = norm_registry().schemas();
    TaskSchema translate = schemas.tasks.front();
    translate.name = "translate";
    translate.own_families = translate.gives_condition = true;
    schemas.tasks.push_back(translate);
    return schemas;
  }();
  return all;
}

ExperimentConfig parse_layers(const std::string& text, std::vector<std::string> overrides) {
  return parse_experiment(text, "t.yaml", overrides, unet_schemas());
}
ExperimentConfig parse_text(const std::string& text) { return parse_layers(text, {}); }
ExperimentConfig parse_unet(const std::string& keys) {
  return parse_text("task: translate\nmodel: {preset: unet_tiny, " + keys + "}");
}
std::string error_of_unet(const std::string& keys) {
  return error_of([&] { parse_unet(keys); });
}

TEST(UNetConfig, PresetsBringTheirSizes) {
  const ModelConfig tiny = parse_unet("shortcut: concat").model;
  EXPECT_EQ(tiny.image_size, 32);
  EXPECT_EQ(tiny.embed_dim, (PerStage<int>{16, 32, 64}));
  EXPECT_EQ(tiny.norm.type, "bn");
  EXPECT_EQ(tiny.act, MlpActivation::kRelu);
  EXPECT_FALSE(tiny.decoder_norm.has_value());
  const ModelConfig resnet = parse_text("task: translate\nmodel: {preset: resnet_9}").model;
  EXPECT_EQ(resnet.bottleneck, 9);
  EXPECT_EQ(resnet.shortcut, FeatureShortcut::kNone);
  EXPECT_EQ(resnet.norm.type, "in");
}

TEST(UNetConfig, KeysSurviveTheFile) {
  for (const char* keys :
       {"shortcut: dms, shortcut_hidden: 8, pono: false, out_channels: 1",
        "residual: true, bottleneck: 2, act: silu, norm: none",
        "decoder_norm: {type: spade, hidden: 9, base: in}, condition: {size: 4}",
        "decoder_norm: {type: cbn, sync: true}, condition: {from: image, size: 4}",
        "norm: {type: gn, groups: 4}, decoder_norm: {type: gn, groups: 2}",
        "decoder_norm: adain_mlp, condition: {from: index, styles: 3, mapping: 9}"}) {
    SCOPED_TRACE(keys);
    const ExperimentConfig c = parse_unet(keys);
    EXPECT_EQ(parse_text(to_yaml(c)), c);
  }
}

TEST(UNetConfig, DecoderHasOptionsOfItsOwn) {
  const ModelConfig m =
      parse_unet("norm: {type: gn, groups: 4, eps: 1.0e-3}, decoder_norm: {type: gn, groups: 2}")
          .model;
  EXPECT_EQ(m.norm.number("groups"), 4);
  ASSERT_TRUE(m.decoder_norm.has_value());
  EXPECT_EQ(m.decoder_norm->number("groups"), 2);
  EXPECT_EQ(m.decoder_norm->eps, 1e-3);
  const ModelConfig spade = parse_unet("decoder_norm: spade, condition: {size: 4}").model;
  EXPECT_EQ(*spade.decoder_norm->find<std::int64_t>("hidden"), 128);
}

// A layer that chooses another normalizer drops the options and conditions of the old one, but not
// those that the other half still reads.
TEST(UNetConfig, LayersDropWhatNoHalfReads) {
  const std::string cin =
      "task: translate\nmodel: {preset: unet_tiny, decoder_norm: cin, condition: {from: index, "
      "styles: 3}}";
  const ModelConfig kept = parse_layers(cin, {"model.norm=in"}).model;
  EXPECT_EQ(kept.condition.styles, 3);
  EXPECT_EQ(kept.norm.type, "in");
  const ModelConfig dropped = parse_layers(cin, {"model.decoder_norm=bn"}).model;
  EXPECT_FALSE(dropped.condition.styles.has_value());
  EXPECT_FALSE(dropped.condition.from.has_value());
  const ModelConfig unset =
      parse_layers(cin, {"model.decoder_norm=null", "model.condition=null"}).model;
  EXPECT_FALSE(unset.decoder_norm.has_value());
  const std::string both =
      "task: translate\nmodel: {preset: unet_tiny, norm: cbn, decoder_norm: cbn, condition: {from: "
      "index, styles: 3}}";
  EXPECT_EQ(parse_layers(both, {"model.decoder_norm=bn"}).model.condition.styles, 3);
  const std::string spade =
      "task: translate\nmodel: {preset: unet_tiny, decoder_norm: {type: spade, hidden: 9}, "
      "condition: {size: 4}}";
  EXPECT_EQ(parse_layers(spade, {"model.decoder_norm.type=dln"}).model.decoder_norm->type, "dln");
}

TEST(UNetConfig, ErrorsNameProblemAndFix) {
  struct Case {
    const char *keys, *words;
  };
  for (const Case& c : {
           Case{"norm: adain, condition: {from: image}", "model.decoder_norm"},
           Case{"decoder_norm: cin, condition: {from: index}", "model.condition.styles"},
           Case{"decoder_norm: cin, condition: {from: image, styles: 2}", "index"},
           Case{"decoder_norm: spade", "model.condition.size"},
           Case{"decoder_norm: cbn", "set model.condition.from"},
           Case{"decoder_norm: cbn, condition: {from: vector}", "model.condition.size"},
           Case{"decoder_norm: adain, condition: {from: index, styles: 2}",
                "model.condition.from: image"},
           Case{"decoder_norm: bn, condition: {from: index, styles: 2}",
                "model.condition.from is not read by the normalizer 'bn'"},
           Case{"decoder_norm: cin, condition: {from: index, styles: 2, mapping: 8}",
                "model.condition.mapping is not read"},
           Case{"decoder_norm: {hidden: 8}", "model.decoder_norm.type is not"},
           Case{"decoder_norm: {type: dln, hidden: 8}", "not read by the normalizer 'dln'"},
           Case{"residual: true, out_channels: 1", "model.residual"},
           Case{"image_size: 30", "multiples of 4"},
           Case{"embed_dim: [16, 32], depth: [2, 2, 2]", "one for each stage"},
           Case{"embed_dim: [20, 32, 64]", "multiple of 8"},
           Case{"embed_dim: [16], depth: [2]", "set it to none"},
           Case{"shortcut_hidden: 8", "model.shortcut: dms"},
           Case{"num_heads: 4", "model.num_heads is not read by the model family 'unet'"},
       }) {
    SCOPED_TRACE(c.keys);
    expect_contains(error_of_unet(c.keys), c.words);
  }
  expect_contains(error_of([] { parse_text("task: translate\nmodel: {preset: vit_t}"); }),
                  "translate");
  expect_contains(error_of([] { parse_text("model: {preset: unet_tiny}"); }), "translate");
  expect_contains(error_of([] { parse_text("model: {preset: vit_t, decoder_norm: bn}"); }),
                  "model.decoder_norm.type is not read by the model family 'vit'");
}

}  // namespace
}  // namespace dtn::testing
