// A model folder of the Hugging Face hub: reading its config.json, and errors in it.
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

ExperimentConfig from_hub(const std::string& json, const std::vector<std::string>& set = {}) {
  TempFolder folder;
  folder.write("config.json", json);
  return load_experiment(find_config(folder.path().string()), set, fake_schemas());
}

std::string hub_error(const std::string& json) {
  return error_of([&] { from_hub(json); });
}

// As timm 1.0.31 writes it.
const char* const kDino = R"({
  "architecture": "vit_small_patch14_dinov2",
  "num_classes": 0, "num_features": 384, "global_pool": "token",
  "model_args": {"img_size": 224, "dynamic_img_size": true},
  "pretrained_cfg": {
    "tag": "lvd142m", "custom_load": false, "input_size": [3, 518, 518], "fixed_input_size": true,
    "interpolation": "bicubic", "crop_pct": 1.0, "crop_mode": "center",
    "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "num_classes": 0,
    "pool_size": null, "first_conv": "patch_embed.proj", "classifier": "head",
    "license": "apache-2.0"}})";

TEST(Hub, LoadsFolderAsConfig) {
  const ExperimentConfig c = from_hub(kDino, {"train.batch_size=7"});
  EXPECT_EQ(c.name, "vit_small_patch14_dinov2.lvd142m");
  EXPECT_EQ(c.model.patch_size, 14);
  EXPECT_EQ(c.model.layer_scale, 1e-5);
  EXPECT_EQ(c.model.num_classes, 0);
  EXPECT_EQ(c.model.image_size, 224) << "model_args above pretrained_cfg";
  EXPECT_EQ(c.data.crop_pct, 1);
  EXPECT_EQ(c.train.batch_size, 7);
}

TEST(Hub, AppliesFieldsOfConfigJson) {
  const ExperimentConfig c = from_hub(R"({"architecture": "deit_tiny_patch16_224",
    "num_classes": 37, "global_pool": "avg",
    "model_args": {"depth": 3, "init_values": 1e-6, "reg_tokens": 2, "no_embed_class": true,
                   "act_layer": "quick_gelu", "qk_norm": true, "img_size": [96, 96]},
    "pretrained_cfg": {"tag": "mine", "num_classes": 5, "input_size": [1, 224, 224],
                       "interpolation": "bilinear", "crop_pct": 0.75, "mean": [0.1], "std": [0.2]}})");
  EXPECT_EQ(c.model.num_classes, 37);
  EXPECT_EQ(c.model.pool, Pooling::kMean);
  EXPECT_EQ(c.model.class_token, true);
  EXPECT_TRUE(c.model.fc_norm);
  EXPECT_EQ(c.model.depth, 3);
  EXPECT_EQ(c.model.layer_scale, 1e-6);
  EXPECT_EQ(c.model.registers, 2);
  EXPECT_EQ(c.model.pos_embed, PosEmbed::kPatch);
  EXPECT_EQ(c.model.act, MlpActivation::kQuickGelu);
  EXPECT_TRUE(c.model.qk_norm);
  EXPECT_EQ(c.model.channels, 1);
  EXPECT_EQ(c.model.image_size, 96);
  EXPECT_EQ(c.data.interpolation, Interpolation::kBilinear);
  EXPECT_EQ(c.data.crop_pct, 0.75);
  EXPECT_EQ(c.data.mean, (std::vector<double>{0.1}));
}

TEST(Hub, SmallAndOldFiles) {
  const ExperimentConfig bare = from_hub(R"({"architecture": "vit_tiny_patch16_384"})");
  EXPECT_EQ(bare.name, "vit_tiny_patch16_384.augreg_in21k_ft_in1k");
  EXPECT_EQ(bare.data.crop_pct, 1);
  // Older files have the parts of pretrained_cfg at the top level.
  const ExperimentConfig old = from_hub(
      R"({"architecture": "vit_tiny_patch16_224", "num_classes": 3, "crop_pct": 0.8, "tag": null})");
  EXPECT_EQ(old.model.num_classes, 3);
  EXPECT_EQ(old.data.crop_pct, 0.8);
  const ExperimentConfig args = from_hub(
      R"({"architecture": "vit_tiny_patch16_224", "num_classes": 3, "model_args": {"num_classes": 4}})");
  EXPECT_EQ(args.model.num_classes, 4);
}

struct Wrong {
  const char *json, *field, *what;
};

TEST(Hub, ErrorsNameFileAndField) {
  const Wrong wrong[] = {
      {"", "", "no valid JSON"},
      {"{\n\"architecture\": \n}", "", "no valid JSON, line 3"},
      {"[1]", "", "is a JSON object"},
      {"{\"a\": 1e999}", "", "too large"},
      {"{}", "", "names no `architecture`"},
      {R"({"architecture": 5})", "architecture", "must be a text"},
      {R"({"architecture": "resnet50"})", "architecture", "no network 'resnet50'"},
      {R"({"architecture": "eva02_tiny_patch14_224"})", "architecture", "rotary"},
      {R"({"architecture": "vit_tiny_patch16_224", "num_classes": "ten"})", "num_classes",
       "model.num_classes"},
      {R"({"architecture": "vit_tiny_patch16_224", "num_classes": -1})", "num_classes",
       "model.num_classes"},
      {R"({"architecture": "vit_tiny_patch16_224", "global_pool": "map"})", "global_pool",
       "no pooling"},
      {R"({"architecture": "vit_tiny_patch16_224", "global_pool": ["avg"]})", "global_pool",
       "must be a text"},
      {R"({"architecture": "vit_tiny_patch16_224", "model_args": 7})", "model_args",
       "must be an object"},
      {R"({"architecture": "vit_tiny_patch16_224", "model_args": {"depth": 1e9}})",
       "model_args.depth", "model.depth"},
      {R"({"architecture": "vit_tiny_patch16_224", "model_args": {"depth": {}}})",
       "model_args.depth", "must be a number or a text"},
      {R"({"architecture": "vit_tiny_patch16_224", "model_args": {"num_heads": 7}})",
       "model_args.num_heads", "not divisible"},
      {R"({"architecture": "vit_tiny_patch16_224", "model_args": {"img_size": [224, 112]}})",
       "model_args.img_size", "must be a square"},
      {R"({"architecture": "vit_tiny_patch16_224", "model_args": {"act_layer": "mish"}})",
       "model_args.act_layer", "quick_gelu"},
      {R"({"architecture": "vit_tiny_patch16_224", "model_args": {"scale_attn_norm": true}})",
       "model_args.scale_attn_norm", "no key of ours"},
      {R"({"architecture": "vit_tiny_patch16_224", "model_args": {"no_embed_class": 1}})",
       "model_args.no_embed_class", "true or false"},
      {R"({"architecture": "vit_tiny_patch16_224", "pretrained_cfg": []})", "pretrained_cfg",
       "must be an object"},
      {R"({"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {"input_size": 224}})",
       "pretrained_cfg.input_size", "[channels, height, width]"},
      {R"({"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {"mean": [[0.5]]}})",
       "pretrained_cfg.mean", "a list of numbers"},
      {R"({"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {"std": [0.5, 0, 0.5]}})",
       "pretrained_cfg.std", "data.std"},
      {R"({"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {"crop_pct": 1.5}})",
       "pretrained_cfg.crop_pct", "data.crop_pct"},
      {R"({"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {"interpolation": "box"}})",
       "pretrained_cfg.interpolation", "bilinear"},
  };
  for (const Wrong& w : wrong) {
    SCOPED_TRACE(w.json);
    const std::string error = hub_error(w.json);
    expect_contains(error, "config.json");
    expect_contains(error, w.field);
    expect_contains(error, w.what);
  }
}

TEST(Hub, HostileFilesAreRejectedQuickly) {
  expect_contains(hub_error(std::string(1 << 20, '[')), "no valid JSON");
  expect_contains(hub_error(std::string(5 << 20, ' ')), "4 MiB");
  std::string deep = R"({"architecture": )" + std::string(100'000, '[');
  expect_contains(hub_error(deep + std::string(100'000, ']') + "}"), "must be a text");
  expect_contains(hub_error("{\"architecture\": \"\x01\xff\"}"), "no valid JSON");
  const std::string shown = hub_error(R"({"architecture": "a\nb\u001b[31m"})");
  EXPECT_EQ(shown.find('\n'), std::string::npos);
  EXPECT_EQ(shown.find('\x1b'), std::string::npos);
  TempFolder empty;
  error_of([&] { find_config(empty.path().string()); });
}

}  // namespace
}  // namespace dtn::testing
