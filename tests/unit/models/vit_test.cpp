#include <algorithm>
#include <map>

#include "tiny_vit.h"

namespace dtn {
namespace {

TEST(VisionTransformer, ParameterNamesMatchTimm) {
  Classifier paper(test::paper_vit(), 0), deit(test::deit_vit(), 0), mean(test::mean_vit(), 0);
  auto shape = [](Classifier& m, const char* name) {
    const Parameter* p = m.parameters().find(name);
    return p ? p->shape : Shape();
  };
  EXPECT_EQ(shape(paper, "cls_token"), Shape({1, 1, 20}));
  EXPECT_EQ(shape(paper, "pos_embed"), Shape({1, 9, 20}));
  EXPECT_EQ(shape(deit, "pos_embed"), Shape({1, 10, 20}));
  EXPECT_EQ(shape(paper, "patch_embed.proj.weight"), Shape({20, 2, 5, 5}));
  EXPECT_EQ(shape(paper, "patch_embed.proj.bias"), Shape({20}));
  EXPECT_EQ(shape(paper, "blocks.0.norm1.pos_proj.weight"), Shape({5, 3}));
  EXPECT_EQ(shape(paper, "blocks.1.norm2.mean_norm_weight"), Shape({5}));
  EXPECT_EQ(shape(paper, "blocks.2.attn.qkv.weight"), Shape({60, 20}));
  EXPECT_EQ(shape(deit, "blocks.2.attn.qkv.bias"), Shape({60}));
  EXPECT_EQ(shape(paper, "blocks.2.attn.proj.weight"), Shape({20, 20}));
  EXPECT_EQ(shape(paper, "blocks.2.mlp.fc1.weight"), Shape({40, 20}));
  EXPECT_EQ(shape(paper, "blocks.2.mlp.fc2.weight"), Shape({20, 40}));
  EXPECT_EQ(shape(paper, "norm.weight"), Shape({20}));
  EXPECT_EQ(shape(paper, "head.weight"), Shape({7, 20}));
  // The class token joins at block 2, and from there the norm is LayerNorm.
  EXPECT_EQ(paper.parameters().find("blocks.2.norm1.pos_proj.weight"), nullptr);
  EXPECT_EQ(paper.parameters().find("blocks.2.attn.qkv.bias"), nullptr);
  EXPECT_EQ(mean.parameters().find("cls_token"), nullptr);
  EXPECT_NE(mean.parameters().find("blocks.2.norm1.pos_proj.weight"), nullptr);
}

TEST(VisionTransformer, ParameterNamesOfCheckpointOptionsMatchTimm) {
  const auto shapes = [](const char* preset) {
    const std::vector<ModelConfig> all = test::checkpoint_vits();
    Classifier model(*std::ranges::find(all, preset, &ModelConfig::preset), 0);
    std::map<std::string, Shape> result;
    for (const Parameter& p : model.parameters().parameters()) result[p.name] = p.shape;
    return result;
  };
  auto deit3 = shapes("deit3"), clip = shapes("clip"), dinov2 = shapes("dinov2"),
       mae = shapes("mae"), sbb = shapes("sbb"), late = shapes("late"), all = shapes("all"),
       distilled = shapes("distilled");
  EXPECT_EQ(deit3["blocks.1.ls1.gamma"], Shape({64}));
  EXPECT_EQ(deit3["blocks.0.ls2.gamma"], Shape({64}));
  EXPECT_EQ(deit3["pos_embed"], Shape({1, 9, 64}));
  EXPECT_EQ(clip["norm_pre.weight"], Shape({64}));
  EXPECT_FALSE(clip.contains("patch_embed.proj.bias"));
  EXPECT_EQ(dinov2["reg_token"], Shape({1, 4, 64}));
  EXPECT_FALSE(dinov2.contains("head.weight"));
  EXPECT_EQ(mae["cls_token"], Shape({1, 1, 64}));
  EXPECT_EQ(mae["fc_norm.bias"], Shape({64}));
  EXPECT_FALSE(mae.contains("norm.weight"));
  EXPECT_FALSE(sbb.contains("cls_token"));
  EXPECT_EQ(sbb["norm.weight"], Shape({64}));
  EXPECT_EQ(late["blocks.1.attn.q_norm.weight"], Shape({16}));
  EXPECT_EQ(late["blocks.1.attn.k_norm.bias"], Shape({16}));
  EXPECT_EQ(distilled["dist_token"], Shape({1, 1, 64}));
  EXPECT_EQ(distilled["head_dist.weight"], Shape({7, 64}));
  EXPECT_EQ(distilled["pos_embed"], Shape({1, 3 + 9, 64}));
  EXPECT_EQ(all["pos_embed"], Shape({1, 3 + 9, 64}));
  EXPECT_EQ(all["patch_embed.proj.bias"], Shape({64}));
}

TEST(VisionTransformer, DecaysMatricesOnly) {
  std::vector<ModelConfig> configs = test::checkpoint_vits();
  configs.push_back(test::paper_vit());
  configs.push_back(test::biased_vit());
  for (const ModelConfig& c : configs) {
    Classifier model(c, 0);
    for (const Parameter& p : model.parameters().parameters()) {
      bool decays = p.name.ends_with(".weight") && p.shape.rank() > 1;
      EXPECT_EQ(p.decay == Decay::kYes, decays) << p.name;
    }
  }
}

// Only blocks of the grid have position weights, which start as DTN's.
TEST(VisionTransformer, GridBlocksHaveAttentionPositions) {
  Classifier model(test::biased_vit(), 0);
  const Parameter* p = model.parameters().find("blocks.1.attn.pos_proj.weight");
  ASSERT_NE(p, nullptr);
  ASSERT_EQ(p->shape, Shape({5, 3}));
  EXPECT_EQ(model.parameters().find("blocks.2.attn.pos_proj.weight"), nullptr);
  test::Doubles start = test::doubles(p->variable.value());
  const test::Doubles eq7 = {-1, -1, -1, -1, 1, -1, 1, -1, -1, 1, 1, -1};
  EXPECT_EQ(test::Doubles(start.begin(), start.begin() + 12), eq7);
  EXPECT_LT(std::abs(start[12]), 0.1);  // the leftover head
  EXPECT_NE(start[12], 0);
  ModelConfig mean = test::mean_vit();
  mean.mhsa_position = true;
  Classifier pooled(mean, 0);
  EXPECT_NE(pooled.parameters().find("blocks.2.attn.pos_proj.weight"), nullptr);
}

TEST(VisionTransformer, ZeroPositionWeightsChangeNoBit) {
  ModelConfig c = test::biased_vit();
  Classifier with(c, 0);
  c.mhsa_position = false;
  Classifier without(c, 0);
  auto same_logits = [&] {
    Context ctx;
    Tensor images = test::some_images(c, 3, DType::kFloat32);
    return test::same_bits(with.forward(ctx, images).value(), without.forward(ctx, images).value());
  };
  EXPECT_FALSE(same_logits());
  for (Parameter& p : with.parameters().parameters()) {
    Tensor value = p.variable.value();
    if (p.name.ends_with("attn.pos_proj.weight")) value.zero();
  }
  EXPECT_TRUE(same_logits());
}

TEST(VisionTransformer, InitializationDoesNotDependOnNorm) {
  ModelConfig with = test::paper_vit(), without = test::paper_vit();
  without.norm.type = "ln";
  Classifier a(with, 3), b(without, 3), c(without, 4);
  int shared = 0, reseeded = 0;
  for (Parameter& p : b.parameters().parameters()) {
    Parameter* twin = a.parameters().find(p.name);
    ASSERT_NE(twin, nullptr) << p.name;
    EXPECT_TRUE(test::same_bits(twin->variable.value(), p.variable.value())) << p.name;
    ++shared;
    reseeded += !test::same_bits(c.parameters().find(p.name)->variable.value(), p.variable.value());
  }
  EXPECT_GT(shared, 20);
  EXPECT_GT(reseeded, 10) << "another seed must give other weights";
}

TEST(VisionTransformer, RejectsInvalidConfigs) {
  auto broken = [](auto&& edit) {
    ModelConfig c = test::paper_vit();
    edit(c);
    return c;
  };
  EXPECT_THROW(Classifier(broken([](ModelConfig& c) { c.image_size = 16; }), 0), ConfigError);
  EXPECT_THROW(Classifier(broken([](ModelConfig& c) { c.num_heads = 3; }), 0), ConfigError);
  EXPECT_THROW(Classifier(broken([](ModelConfig& c) { c.norm.layers = 4; }), 0), ConfigError);
  EXPECT_THROW(Classifier(broken([](ModelConfig& c) { c.norm.type = "none"; }), 0), ConfigError);
  EXPECT_THROW(Classifier(broken([](ModelConfig& c) { c.class_token = false; }), 0), ConfigError);
  EXPECT_THROW(Classifier(broken([](ModelConfig& c) { c.norm_pre = true; }), 0), ConfigError);
  ModelConfig no_grid = test::deit_vit();
  no_grid.mhsa_position = true;
  EXPECT_THROW(Classifier(no_grid, 0), ConfigError);
}

TEST(VisionTransformer, DistilledFeaturesAreMeanOfBothTokens) {
  std::vector<ModelConfig> all = test::checkpoint_vits();
  ModelConfig c = *std::ranges::find(all, "distilled", &ModelConfig::preset);
  c.num_classes = 0;
  Classifier model(c, 0, DType::kFloat64);
  test::perturb(model.parameters());
  Context ctx = test::computing_in(DType::kFloat64);
  const Fields fields = {{"image", test::some_images(c, 2, DType::kFloat64)}};
  const auto got = test::doubles(model.forward(ctx, fields).value());
  const std::vector<Variable> each = model.backbone().pooled_each(ctx, fields);
  ASSERT_EQ(each.size(), 2u);
  const auto a = test::doubles(each[0].value()), b = test::doubles(each[1].value());
  EXPECT_GT(test::max_abs_difference(a, b), 1e-3);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], (a[i] + b[i]) / 2, 1e-12);
}

// With the same rate in all blocks, the first block drops too.
TEST(VisionTransformer, DropPathIsLinearOrConstant) {
  ModelConfig c = test::deit_vit();
  c.drop_path = 0.5;
  c.depth = 2;
  const auto dropped = [&](bool first) {
    Classifier model(c, 0, DType::kFloat64);
    test::perturb(model.parameters());
    // Zeroes the branches of the other block.
    for (Parameter& p : model.parameters().parameters()) {
      const bool branch = p.name.starts_with(first ? "blocks.1." : "blocks.0.");
      Tensor value = p.variable.value();
      if (branch &&
          (p.name.find("proj") != std::string::npos || p.name.find("fc2") != std::string::npos)) {
        value.zero();
      }
    }
    Context ctx = test::computing_in(DType::kFloat64);
    const Tensor images = test::some_images(c, 8, DType::kFloat64);
    const auto whole = test::doubles(model.forward(ctx, images).value());
    ctx.mode.training = true;
    return test::doubles(model.forward(ctx, images).value()) != whole;
  };
  EXPECT_FALSE(dropped(true));
  EXPECT_TRUE(dropped(false));
  c.drop_path_mode = DropPathMode::kConstant;
  EXPECT_TRUE(dropped(true));
  EXPECT_TRUE(dropped(false));
}

TEST(VisionTransformer, RejectsImagesThatItCannotDivide) {
  Classifier model(test::paper_vit(), 0);
  Context ctx;
  EXPECT_THROW(model.forward(ctx, Tensor::zeros({1, 2, 15, 18}, DType::kFloat32)), ConfigError);
  EXPECT_THROW(model.forward(ctx, Tensor::zeros({1, 3, 15, 15}, DType::kFloat32)), Error);
}

// The last block computes the class token alone. It then has no grid for DTN's table of positions.
TEST(VisionTransformer, FreePositionsAllowClassTokenAlone) {
  ModelConfig c = test::prefix_vit();
  c.pool = Pooling::kCls;
  c.norm.options.push_back({"position", std::string("free")});
  Classifier model(c, 0, DType::kFloat64);
  test::perturb(model.parameters());
  Context ctx = test::computing_in(DType::kFloat64);
  const Tensor images = test::some_images(c, 2, DType::kFloat64);
  const test::Doubles alone = test::doubles(model.forward(ctx, images).value());
  ctx.mode.skip_unread = false;
  const test::Doubles whole = test::doubles(model.forward(ctx, images).value());
  EXPECT_LE(test::max_abs_difference(alone, whole), 1e-12);
}

TEST(VisionTransformer, EvaluatesEachImageIndependently) {
  for (const ModelConfig& c : {test::paper_vit(), test::deit_vit(), test::mean_vit()}) {
    Classifier model(c, 0, DType::kFloat64);
    test::perturb(model.parameters());
    Tensor images = test::some_images(c, 3, DType::kFloat64);
    Context ctx = test::computing_in(DType::kFloat64);
    test::Doubles together = test::doubles(model.forward(ctx, images).value());
    for (std::int64_t i = 0; i < 3; ++i) {
      auto alone = test::doubles(model.forward(ctx, images.slice(i, i + 1)).value());
      test::Doubles part(together.begin() + i * 7, together.begin() + (i + 1) * 7);
      EXPECT_LE(test::max_abs_difference(alone, part), 1e-12) << c.preset;
    }
  }
}

// With class_token_at 2 of 3 blocks, the class token meets the patches in the last attention only.
TEST(VisionTransformer, ClassTokenJoinsAtConfiguredBlock) {
  ModelConfig c = test::paper_vit();
  Classifier model(c, 0, DType::kFloat64);
  test::perturb(model.parameters());
  Tensor images = test::some_images(c, 2, DType::kFloat64);
  Context ctx = test::computing_in(DType::kFloat64);
  auto difference = [&] {  // between the logits of two images
    test::Doubles l = test::doubles(model.forward(ctx, images).value());
    return test::max_abs_difference({l.begin(), l.begin() + 7}, {l.begin() + 7, l.end()});
  };
  EXPECT_GT(difference(), 1e-6);
  for (const char* name : {"blocks.2.attn.proj.weight", "blocks.2.attn.proj.bias"}) {
    Tensor value = model.parameters().find(name)->variable.value();
    value.zero();
  }
  EXPECT_LE(difference(), 1e-13);
}

// The order of the patches matters only through the positions: swapping two patches and their
// positions does not change the logits.
TEST(VisionTransformer, PatchOrderMattersThroughPositionsOnly) {
  ModelConfig c = test::deit_vit();
  Classifier model(c, 0, DType::kFloat64);
  test::perturb(model.parameters());
  Tensor images = test::some_images(c, 1, DType::kFloat64);
  Context ctx = test::computing_in(DType::kFloat64);
  auto before = test::doubles(model.forward(ctx, images).value());
  // Patches 0 and 1 of the first grid row: columns 0-4 and 5-9 of rows 0-4.
  for (int channel = 0; channel < 2; ++channel) {
    for (int y = 0; y < 5; ++y) {
      double* row = images.data<double>() + (channel * 15 + y) * 15;
      std::swap_ranges(row, row + 5, row + 5);
    }
  }
  auto moved = test::doubles(model.forward(ctx, images).value());
  EXPECT_GT(test::max_abs_difference(before, moved), 1e-6);
  Tensor table = model.parameters().find("pos_embed")->variable.value();
  double* positions = table.data<double>();
  std::swap_ranges(positions + 20, positions + 40, positions + 40);  // 0 is the class token's
  auto after = test::doubles(model.forward(ctx, images).value());
  EXPECT_LE(test::max_abs_difference(before, after), 1e-12);
}

}  // namespace
}  // namespace dtn
