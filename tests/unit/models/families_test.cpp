// Models of the other families: names, initialization, weight decay, heads, foreign weights.
#include <algorithm>
#include <set>

#include "dtn/models/presets.h"
#include "dtn/models/weights.h"
#include "tiny_models.h"

namespace dtn {
namespace {

std::set<std::string> names_of(const ModelConfig& c) {
  Classifier model(c, 0, DType::kFloat32, kMeta);
  std::set<std::string> names;
  for (const Parameter& p : model.parameters().parameters()) names.insert(p.name);
  for (const Buffer& b : model.parameters().buffers()) names.insert(b.name);
  return names;
}

void expect_names(const std::set<std::string>& names, std::initializer_list<const char*> want) {
  for (const char* name : want) EXPECT_TRUE(names.contains(name)) << name;
}

double largest(Classifier& model, const std::string& name) {
  Parameter* p = model.parameters().find(name);
  EXPECT_NE(p, nullptr) << name;
  return p ? test::max_abs(test::doubles(p->variable.value())) : -1;
}

TEST(Levit, HasReleasedParameterNames) {
  const std::set<std::string> names = names_of(preset_registry().at("levit_128s").model);
  expect_names(names, {"patch_embed.0.c.weight", "patch_embed.6.bn.running_var",
                       "blocks.0.m.attention_biases", "blocks.0.m.qkv.c.weight",
                       "blocks.2.m.proj.1.bn.weight", "blocks.3.m.2.c.weight",
                       "blocks.4.attention_biases", "blocks.4.kv.c.weight", "blocks.4.q.1.bn.bias",
                       "blocks.4.proj.1.c.weight", "blocks.5.m.0.c.weight", "blocks.12.kv.bn.bias",
                       "blocks.13.m.2.bn.weight", "blocks.21.m.2.bn.running_mean", "head.bn.weight",
                       "head.l.weight", "head_dist.l.bias"});
  ModelConfig c = preset_registry().at("levit_128s").model;
  c.norm.type = "dtn";
  const std::set<std::string> with_dtn = names_of(c);
  expect_names(with_dtn,
               {"blocks.4.proj.1.bn.pos_proj.weight", "blocks.12.proj.1.bn.weight",
                "blocks.20.m.proj.1.bn.mean_norm_weight", "blocks.20.m.qkv.bn.running_var"});
  EXPECT_FALSE(with_dtn.contains("blocks.4.proj.1.bn.running_mean"));
  EXPECT_EQ(std::ranges::count_if(with_dtn,
                                  [](const auto& n) { return n.ends_with(".var_norm_weight"); }),
            11);
}

TEST(Levit, ResidualBranchesStartAtZero) {
  for (const char* type : {"bn", "dtn"}) {
    Classifier model(test::tiny_levit(type), 1);
    EXPECT_EQ(largest(model, "blocks.0.m.proj.1.bn.weight"), 0) << type;
    EXPECT_EQ(largest(model, "blocks.1.m.2.bn.weight"), 0);
    EXPECT_EQ(largest(model, "blocks.2.proj.1.bn.weight"), 1) << "no residual branch";
    EXPECT_EQ(largest(model, "blocks.0.m.attention_biases"), 0);
    EXPECT_EQ(largest(model, "head.l.bias"), 0);
    // Uniform within 1 / sqrt(fan_in).
    EXPECT_NEAR(largest(model, "blocks.0.m.qkv.c.weight"), 1 / std::sqrt(32.0), 1e-3);
    EXPECT_NEAR(largest(model, "patch_embed.2.c.weight"), 1 / std::sqrt(4 * 9.0), 2e-3);
    EXPECT_EQ(model.parameters().find("blocks.0.m.attention_biases")->decay, Decay::kNo);
    EXPECT_EQ(model.parameters().find("blocks.0.m.qkv.c.weight")->decay, Decay::kYes);
  }
}

TEST(Levit, SupportsOneAndTwoHeads) {
  const ModelConfig c = test::tiny_levit();
  Classifier model(c, 1);
  test::perturb(model.parameters());
  Context ctx;
  const Fields images{{"image", test::some_images(c, 2, DType::kFloat32)}};
  const std::vector<Variable> each = model.forward_heads(ctx, images);
  ASSERT_EQ(each.size(), 2u);
  const auto one = test::doubles(each[0].value()), two = test::doubles(each[1].value());
  EXPECT_NE(one, two);
  const auto mean = test::doubles(model.forward(ctx, images).value());
  for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(mean[i], (one[i] + two[i]) / 2, 1e-6);
  EXPECT_TRUE(model.is_head("head_dist.bn.running_mean"));

  ModelConfig single = c;
  single.distilled = false;
  Classifier plain(single, 2);
  const auto notes =
      load_adapted(plain, named_values(model.parameters()), "file", {.image_size = c.image_size});
  EXPECT_EQ(notes.size(), 6u) << "the tensors of head_dist";
  EXPECT_EQ(test::doubles(plain.forward(ctx, images).value()), one);
}

// timm's names for the blocks of tiny_levit(), which has the authors' names.
std::string in_timm(std::string name) {
  const auto swap = [&](const std::string& ours, const std::string& theirs) {
    const std::size_t at = name.find(ours);
    if (at != std::string::npos) name.replace(at, ours.size(), theirs);
  };
  if (name.starts_with("head")) {
    swap(".l.", ".linear.");
    return name;
  }
  swap(".c.", ".linear.");
  swap("patch_embed.0", "stem.conv1");
  swap("patch_embed.2", "stem.conv2");
  swap("patch_embed.4", "stem.conv3");
  swap("patch_embed.6", "stem.conv4");
  const bool is_stem = name.starts_with("stem");
  if (!is_stem) {
    swap(".m.0.", ".m.ln1.");
    swap(".m.2.", ".m.ln2.");
    swap("proj.1", "proj.ln");
    swap("q.1", "q.ln");
  }
  swap("blocks.0.m", "stages.0.blocks.0.attn");
  swap("blocks.1.m", "stages.0.blocks.0.mlp");
  swap("blocks.2.", "stages.1.downsample.attn_downsample.");
  swap("blocks.3.m", "stages.1.downsample.mlp");
  if (name.starts_with("blocks.")) {
    swap("blocks.4.m", "stages.1.blocks.0.attn");
    swap("blocks.5.m", "stages.1.blocks.0.mlp");
    swap("blocks.6.m", "stages.1.blocks.1.attn");
    swap("blocks.7.m", "stages.1.blocks.1.mlp");
  }
  return name;
}

TEST(Levit, ReadsTimmLayout) {
  const ModelConfig c = test::tiny_levit();
  Classifier from(c, 1), to(c, 2);
  test::perturb(from.parameters());
  NamedTensors theirs;
  for (const auto& [name, tensor] : named_values(from.parameters())) {
    const bool pointwise = name.starts_with("blocks.") && name.ends_with(".c.weight");
    theirs.emplace_back(in_timm(name),
                        pointwise ? tensor.reshape({tensor.dim(0), tensor.dim(1), 1, 1}) : tensor);
  }
  theirs.emplace_back("stem.conv1.bn.num_batches_tracked", Tensor::zeros({}, DType::kInt64));
  theirs.emplace_back("stages.0.blocks.0.attn.attention_bias_idxs",
                      Tensor::zeros({6, 6}, DType::kInt64));
  EXPECT_TRUE(load_adapted(to, theirs, "file", {.image_size = c.image_size}).empty());
  EXPECT_TRUE(test::same_bits(from.parameters().values(), to.parameters().values()));
}

TEST(T2tVit, PositionsMatchFormula) {
  const ModelConfig c = test::tiny_t2t();
  Classifier model(c, 1);
  const Parameter* p = model.parameters().find("pos_embed");
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->shape, Shape({1, 7, 16}));
  EXPECT_TRUE(p->frozen);
  EXPECT_FALSE(p->variable.requires_grad());
  const float* row = p->variable.value().data<float>() + 5 * 16;
  EXPECT_EQ(row[0], static_cast<float>(std::sin(5.0)));
  EXPECT_EQ(row[1], static_cast<float>(std::cos(5.0)));
  EXPECT_EQ(row[6], static_cast<float>(std::sin(5 / std::pow(10000.0, 6.0 / 16))));
  EXPECT_EQ(row[7], static_cast<float>(std::cos(5 / std::pow(10000.0, 6.0 / 16))));
}

TEST(T2tVit, LoadsPositionsOfSameGridOnly) {
  ModelConfig c = test::tiny_t2t();
  const GridKeys here{.image_size = c.image_size};
  Classifier from(c, 1), same(c, 2);
  Tensor table = from.parameters().find("pos_embed")->variable.value();
  table.zero();
  EXPECT_TRUE(load_adapted(same, named_values(from.parameters()), "file", here).empty());
  EXPECT_EQ(largest(same, "pos_embed"), 0);
  c.image_size = {48, 48};
  Classifier larger(c, 2);
  const auto notes = load_adapted(larger, named_values(from.parameters()), "file", here);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("3 x 3"), std::string::npos) << notes[0];
  EXPECT_EQ(largest(larger, "pos_embed"), 1);
}

// pos_embed is frozen from the start, so training does not change it.
TEST(T2tVit, PositionsAreNotTrained) {
  Classifier model(test::tiny_t2t(), 1);
  const Parameter* p = model.parameters().find("pos_embed");
  for (const FlatRange& range : model.parameters().live_ranges()) {
    EXPECT_TRUE(range.end <= p->offset || p->offset + p->shape.numel() <= range.begin);
  }
  EXPECT_EQ(names_of(preset_registry().at("t2t_vit_t_14").model)
                .count("tokens_to_token.attention2.mlp.fc1.bias"),
            1u);
}

TEST(ResNet, HasTorchvisionParameterNames) {
  expect_names(names_of(preset_registry().at("resnet50").model),
               {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "layer1.0.bn3.weight",
                "layer1.0.downsample.0.weight", "layer1.0.downsample.1.running_var",
                "layer4.2.conv2.weight", "fc.weight", "fc.bias"});
}

TEST(ResNet, BlocksStartAsIdentity) {
  for (const char* type : {"bn", "in", "gn", "sn"}) {
    Classifier model(test::tiny_resnet(type), 1);
    EXPECT_EQ(largest(model, "layer1.0.bn3.weight"), 0) << type;
    EXPECT_EQ(largest(model, "layer1.0.bn2.weight"), 1) << type;
  }
  Classifier model(preset_registry().at("resnet50").model, 1);
  double squares = 0;
  const auto weights =
      test::doubles(model.parameters().find("layer2.0.conv2.weight")->variable.value());
  for (double w : weights) squares += w * w;
  EXPECT_NEAR(squares / static_cast<double>(weights.size()), 2.0 / (9 * 128), 0.02 * 2 / (9 * 128));
}

TEST(RegNet, HasTimmParameterNames) {
  expect_names(names_of(preset_registry().at("regnety_160").model),
               {"stem.conv.weight", "stem.bn.running_mean", "s1.b1.conv1.conv.weight",
                "s1.b1.conv2.bn.weight", "s1.b1.se.fc1.bias", "s3.b11.conv3.bn.running_var",
                "s4.b1.downsample.conv.weight", "s4.b1.downsample.bn.bias", "head.fc.weight"});
}

TEST(Families, RejectInvalidConfigs) {
  const auto error_of = [](const ModelConfig& c) -> std::string {
    try {
      Classifier model(c, 0, DType::kFloat32, kMeta);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  const auto expect = [&](const ModelConfig& c, const char* words) {
    const std::string error = error_of(c);
    EXPECT_NE(error.find(words), std::string::npos) << error;
  };
  ModelConfig c = test::tiny_levit();
  c.image_size = {40, 64};
  expect(c, "multiples of 16");
  expect(c, "48 x 64");
  c = test::tiny_t2t();
  c.image_size = 100;
  expect(c, "96 x 96");
  expect(test::tiny_resnet("dtn"), "ResNet normalizes after convolutions");
  expect(test::tiny_resnet("ln"), "bn, in, gn or sn");
  c = test::tiny_t2t("dtn");
  c.class_token_at = 0;
  expect(c, "no block would use the normalizer");
  c.norm.layers = 2;
  expect(c, "goes past block 0");
  c = test::tiny_regnet();
  c.norm.type = "gn";
  expect(c, "BatchNorm only");
}

}  // namespace
}  // namespace dtn
