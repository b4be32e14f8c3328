#include "train/record/gradient_norms_writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "temp_folder.h"

namespace dtn {
namespace {

using test::TempFolder;

TEST(GradientLog, PartsAreBlocksAndTopLevelModules) {
  EXPECT_EQ(part_of("blocks.3.attn.qkv.weight"), "blocks.3");
  EXPECT_EQ(part_of("layers.0.blocks.1.mlp.fc1.bias"), "layers.0.blocks.1");
  EXPECT_EQ(part_of("block1.0.attn.q.weight"), "block1.0");
  EXPECT_EQ(part_of("layer2.1.downsample.0.weight"), "layer2.1");
  EXPECT_EQ(part_of("patch_embed.proj.weight"), "patch_embed");
  EXPECT_EQ(part_of("cls_token"), "cls_token");
  EXPECT_EQ(part_of(""), "");
}

// A model of three parameters in two parts.
class GradientNorms : public ::testing::Test {
 protected:
  GradientNorms() {
    for (const char* name : {"blocks.0.a", "blocks.0.b", "head"}) {
      store_.add(name, {2}, InitKind::kZeros, Decay::kNo);
    }
    store_.allocate();
    set("blocks.0.a", 1, 2);
    set("blocks.0.b", 2, 0);
    set("head", 0, 4);
  }

  void set(const char* name, float first, float second) {
    Tensor gradient = ParameterStore::view(store_.gradients(), *store_.find(name));
    gradient.data<float>()[0] = first;
    gradient.data<float>()[1] = second;
  }

  ParameterStore store_;
};

TEST_F(GradientNorms, AreThoseOfParts) {
  const auto norms = gradient_norms(store_, 2);
  ASSERT_EQ(norms.size(), 2u);
  EXPECT_EQ(norms[0].first, "blocks.0");
  EXPECT_DOUBLE_EQ(norms[0].second, 6);
  EXPECT_EQ(norms[1].first, "head");
  EXPECT_DOUBLE_EQ(norms[1].second, 8);
}

TEST_F(GradientNorms, SkipFrozenParts) {
  store_.freeze([](const Parameter& p) { return p.name == "head"; }, false);
  const auto norms = gradient_norms(store_, 1);
  ASSERT_EQ(norms.size(), 1u);
  EXPECT_DOUBLE_EQ(norms[0].second, 3);
  store_.zero_gradients();
  EXPECT_EQ(gradient_norms(store_, 1)[0].second, 0);
}

TEST_F(GradientNorms, ResumedLogDropsLaterSteps) {
  TempFolder folder;
  {
    GradientNormsWriter writer(folder.path(), store_, std::nullopt);
    for (int step : {10, 20, 30}) writer.write(step, step / 10.0, 1);
  }
  {
    GradientNormsWriter writer(folder.path(), store_, 20);
    writer.write(30, 3, 2);
  }
  std::ifstream file(folder.path() / "gradients.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1]["step"], 20);
  EXPECT_EQ(lines[1]["gradient_norm"]["head"], 4);
  EXPECT_EQ(lines[2]["gradient_norm"]["head"], 8);
}

}  // namespace
}  // namespace dtn
