// Models with several stages: names, initialization, weight decay, normalizers and errors.
#include <set>

#include "dtn/config/load.h"
#include "tiny_stages.h"

namespace dtn {
namespace {

std::set<std::string> names_of(const ModelConfig& c) {
  Classifier model(c, 0, DType::kFloat32, kMeta);
  std::set<std::string> names;
  for (const Parameter& p : model.parameters().parameters()) names.insert(p.name);
  return names;
}

void expect_names(const std::set<std::string>& names, std::initializer_list<const char*> want) {
  for (const char* name : want) EXPECT_TRUE(names.contains(name)) << name;
}

struct Start {
  double mean_square, largest;
  Decay decay;
};

Start start_of(Classifier& model, const std::string& name) {
  const Parameter* p = model.parameters().find(name);
  EXPECT_NE(p, nullptr) << name;
  if (p == nullptr) return {};
  const test::Doubles values = test::doubles(p->variable.value());
  double squares = 0;
  for (const double v : values) squares += v * v;
  return {squares / static_cast<double>(values.size()), test::max_abs(values), p->decay};
}

void expect_normal(Classifier& model, const std::string& name, double variance) {
  EXPECT_NEAR(start_of(model, name).mean_square / variance, 1, 0.05) << name;
}

// Uniform within +-bound.
void expect_uniform(Classifier& model, const std::string& name, double bound) {
  const Start start = start_of(model, name);
  EXPECT_LE(start.largest, bound) << name;
  EXPECT_NEAR(start.mean_square / (bound * bound / 3), 1, 0.1) << name;
}

void expect_decay(Classifier& model, std::initializer_list<const char*> yes,
                  std::initializer_list<const char*> no) {
  for (const char* name : yes) EXPECT_EQ(start_of(model, name).decay, Decay::kYes) << name;
  for (const char* name : no) EXPECT_EQ(start_of(model, name).decay, Decay::kNo) << name;
}

TEST(Pvt, HasReleasedParameterNames) {
  ModelConfig c = preset_registry().at("pvt_small").model;
  const std::set<std::string> names = names_of(c);
  expect_names(
      names, {"patch_embed1.proj.weight", "patch_embed4.norm.bias", "pos_embed1", "pos_embed4",
              "cls_token", "block1.0.norm1.weight", "block1.2.attn.q.weight",
              "block2.3.attn.kv.bias", "block3.5.attn.sr.weight", "block3.0.attn.norm.bias",
              "block4.2.attn.proj.weight", "block4.0.mlp.fc2.bias", "norm.weight", "head.weight"});
  EXPECT_FALSE(names.contains("block4.0.attn.sr.weight"));
  EXPECT_FALSE(names.contains("block4.0.attn.norm.weight"));
  c.norm.type = "dtn";
  const std::set<std::string> with_dtn = names_of(c);
  expect_names(with_dtn, {"block3.5.norm2.pos_proj.weight", "block1.0.norm1.mean_norm_weight"});
  EXPECT_FALSE(with_dtn.contains("block4.0.norm1.pos_proj.weight"));
}

TEST(Pvt, StartsAndDecaysAsReleased) {
  Classifier model(preset_registry().at("pvt_tiny").model, 1);
  expect_normal(model, "pos_embed1", 0.0004);
  expect_normal(model, "block3.0.attn.kv.weight", 0.0004);
  expect_uniform(model, "patch_embed1.proj.weight", 1 / std::sqrt(48.0));
  expect_uniform(model, "block1.0.attn.sr.weight", 1 / std::sqrt(64 * 64.0));
  EXPECT_EQ(start_of(model, "block1.0.attn.q.bias").largest, 0);
  expect_decay(model, {"pos_embed1", "pos_embed4", "block2.0.attn.sr.weight"},
               {"cls_token", "block2.0.attn.sr.bias", "patch_embed1.norm.weight"});
}

TEST(PvtV2, HasReleasedParameterNames) {
  const std::set<std::string> names = names_of(preset_registry().at("pvt_v2_b3").model);
  expect_names(names, {"patch_embed1.proj.weight", "block3.17.mlp.dwconv.dwconv.weight",
                       "block1.0.attn.sr.bias", "norm1.weight", "norm4.bias", "head.bias"});
  for (const char* name : {"cls_token", "pos_embed1", "norm.weight"}) {
    EXPECT_FALSE(names.contains(name)) << name;
  }
}

TEST(PvtV2, StartsAsReleased) {
  Classifier model(preset_registry().at("pvt_v2_b3").model, 1);
  expect_normal(model, "patch_embed1.proj.weight", 2.0 / (49 * 64));
  expect_normal(model, "block1.0.attn.sr.weight", 2.0 / (64 * 64));
  expect_normal(model, "block1.0.mlp.dwconv.dwconv.weight", 2.0 / 9);
  EXPECT_EQ(start_of(model, "block1.0.mlp.dwconv.dwconv.bias").largest, 0);
  EXPECT_EQ(start_of(model, "patch_embed2.proj.bias").largest, 0);
}

TEST(Swin, HasReleasedParameterNames) {
  ModelConfig c = preset_registry().at("swin_t").model;
  c.norm.type = "dtn";
  const std::set<std::string> names = names_of(c);
  expect_names(names, {"patch_embed.proj.bias", "patch_embed.norm.weight",
                       "layers.0.blocks.1.attn.relative_position_bias_table",
                       "layers.2.blocks.5.attn.qkv.bias", "layers.0.downsample.reduction.weight",
                       "layers.2.downsample.norm.weight", "layers.3.blocks.1.mlp.fc1.weight",
                       "layers.3.blocks.1.norm2.pos_proj.weight", "norm.bias", "head.weight"});
  EXPECT_FALSE(names.contains("layers.0.downsample.reduction.bias"));
  EXPECT_FALSE(names.contains("layers.3.downsample.reduction.weight"));
}

TEST(Swin, StartsAndDecaysAsReleased) {
  Classifier model(preset_registry().at("swin_t").model, 1);
  EXPECT_NEAR(start_of(model, "layers.2.blocks.0.attn.relative_position_bias_table").mean_square,
              0.0004, 0.00006);
  expect_uniform(model, "patch_embed.proj.weight", 1 / std::sqrt(48.0));
  expect_decay(model, {"layers.0.downsample.reduction.weight", "patch_embed.proj.weight"},
               {"layers.0.blocks.0.attn.relative_position_bias_table",
                "layers.0.downsample.norm.weight", "layers.0.blocks.0.attn.qkv.bias"});
}

// Each stage has its grid and width.
TEST(StageModels, ReturnFeaturesOfEachStage) {
  for (const ModelConfig& c : test::staged_models()) {
    SCOPED_TRACE(c.preset);
    Classifier model(c, 1);
    test::perturb(model.parameters());
    Context ctx;
    const Fields images{{"image", test::some_images(c, 2, DType::kFloat32)}};
    const Features features = model.backbone().forward(ctx, images);
    ASSERT_EQ(features.size(), 2u);
    const bool swin = c.family == "swin";
    EXPECT_EQ(features[0].grid, swin ? TokenGrid({6, 12}) : TokenGrid({10, 6}));
    EXPECT_EQ(features[1].grid, swin ? TokenGrid({3, 6}) : TokenGrid({5, 3}));
    EXPECT_EQ(features[1].extra, c.family == "pvt" ? 1 : 0);
    EXPECT_EQ(features[1].x.shape(), Shape({2, features[1].arrangement().tokens(), 12}));
    EXPECT_EQ(model.backbone().stages()[1].stride, 8);
  }
}

// The computations skipped in the last block of PVT change nothing.
TEST(StageModels, SkippingUnreadTokensChangesNothing) {
  const ModelConfig c = test::tiny_pvt("dtn");
  Classifier model(c, 1, DType::kFloat64);
  test::perturb(model.parameters());
  Context ctx = test::computing_in(DType::kFloat64);
  const Tensor images = test::some_images(c, 3, DType::kFloat64);
  const auto part = test::doubles(model.forward(ctx, images).value());
  ctx.mode.skip_unread = false;
  const auto whole = test::doubles(model.forward(ctx, images).value());
  EXPECT_LE(test::max_abs_difference(part, whole), 1e-12 * test::max_abs(whole));
}

// Results are finite, and every parameter of a norm gets a gradient.
TEST(StageModels, TakeEveryNormalizer) {
  for (ModelConfig c : {test::tiny_pvt(), test::tiny_pvt_v2(), test::tiny_swin()}) {
    for (const NormEntry& row : norm_registry()) {
      if (!row.schema.stands_alone()) continue;
      c.norm.type = row.name();
      SCOPED_TRACE(cat(c.preset, ", ", row.name()));
      Classifier model(c, 1);
      test::perturb(model.parameters());
      Context ctx;
      ctx.mode.training = true;
      const Tensor logits = test::logits_and_gradients(model, 4, DType::kFloat32, ctx);
      EXPECT_LT(test::max_abs(test::doubles(logits)), 1e3);
      for (const Parameter& p : model.parameters().parameters()) {
        const double largest =
            test::max_abs(test::doubles(ParameterStore::view(model.parameters().gradients(), p)));
        EXPECT_LT(largest, 1e4) << p.name;
        if (!p.name.ends_with("pos_proj.bias")) {
          EXPECT_GT(largest, 0) << p.name;
        }
      }
    }
  }
}

// DTN uses 1e-5, whatever eps the model's LayerNorms have; other norms use the LayerNorms' eps.
TEST(StageModels, UseEpsOfEachNorm) {
  const auto logits_of = [](const char* norm, std::optional<double> eps) {
    ModelConfig c = test::tiny_pvt(norm);
    c.eps = 0.5;  // large, so that it has an effect
    c.norm.eps = eps;
    Classifier model(c, 1);
    test::perturb(model.parameters());
    Context ctx;
    return test::doubles(model.forward(ctx, test::some_images(c, 2, DType::kFloat32)).value());
  };
  EXPECT_EQ(logits_of("dtn", {}), logits_of("dtn", 1e-5));
  EXPECT_NE(logits_of("dtn", {}), logits_of("dtn", 0.5));
  EXPECT_EQ(logits_of("rms", {}), logits_of("rms", 0.5));
  EXPECT_NE(logits_of("rms", {}), logits_of("rms", 1e-5));
}

std::string error_of(const std::string& model) {
  try {
    ConfigSchemas schemas;
    schemas.norms = norm_registry().schemas();
    schemas.models = model_registry().schemas();
    schemas.presets = {preset_registry().begin(), preset_registry().end()};
    schemas.policies = {{"none", "nothing", {}}};
    parse_experiment("model: {" + model + "}", "config", {}, schemas);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

void expect_error(const std::string& model, std::initializer_list<const char*> words) {
  const std::string error = error_of(model);
  for (const char* word : words) {
    EXPECT_NE(error.find(word), std::string::npos) << model << ": " << error;
  }
}

TEST(StageModels, AcceptAnySizeDivisibleByStrides) {
  for (const char* model :
       {"preset: pvt_tiny, image_size: [200, 150]", "preset: pvt_tiny, image_size: 32, norm: dtn",
        "preset: pvt_tiny, image_size: [64, 32], norm: dtn, num_heads: [4, 4, 5, 8]",
        "preset: pvt_v2_b3, image_size: 150", "preset: pvt_v2_b3, norm: {type: dtn, layers: 4}",
        "preset: pvt_tiny, norm: {type: rms, layers: 4}",
        "preset: pvt_tiny, norm: {type: dtn, layers: 4, prefix: ln}",
        "preset: swin_t, image_size: [224, 448]", "preset: swin_t, image_size: 256",
        "preset: swin_t, image_size: 32, window: 4, norm: {type: dtn, pool: [2, 2, 1, 1]}"}) {
    EXPECT_EQ(error_of(model), "");
  }
}

TEST(StageModels, RejectInvalidConfigs) {
  expect_error("preset: pvt_tiny, image_size: 24", {"stage 4", "0 x 0", "larger"});
  expect_error("preset: pvt_tiny, image_size: 28", {"model.image_size", "stage"});
  expect_error("preset: pvt_tiny, norm: {type: dtn, layers: 4}", {"class token", "at most 3"});
  expect_error("preset: pvt_tiny, norm: {type: dtn, layers: 5}",
               {"counts stages", "the model has 4"});
  expect_error("preset: pvt_tiny, image_size: 200, norm: dtn",
               {"model.norm.pool", "50 x 50", "4 x 4"});
  expect_error("preset: pvt_tiny, num_heads: [1, 3, 5, 8]", {"model.num_heads 3", "stage 2"});
  expect_error("preset: pvt_tiny, num_heads: [1, 2, 5]", {"model.num_heads", "3 values"});
  expect_error("preset: pvt_tiny, reduction: [8, 4, 2, 2]", {"model.reduction", "must be 1"});
  expect_error("preset: pvt_v2_b3, image_size: 28", {"model.reduction 8", "7 x 7"});
  expect_error("preset: pvt_tiny, registers: 2", {"model.registers", "is not read by"});
  expect_error("preset: pvt_tiny, window: 7", {"model.window", "is not read by"});
  expect_error("preset: pvt_tiny, pool: mean", {"model.pool", "is not read by"});
  expect_error("preset: swin_t, reduction: 2", {"model.reduction", "is not read by"});
  expect_error("preset: swin_t, image_size: 230", {"230", "divisible by 32", "224"});
}

}  // namespace
}  // namespace dtn
