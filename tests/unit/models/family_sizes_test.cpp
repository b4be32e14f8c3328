// Exact parameters and multiply-adds of models of the other families at 224 x 224.
#include <set>

#include "dtn/models/complexity.h"
#include "dtn/models/presets.h"
#include "tiny_models.h"

namespace dtn {
namespace {

ModelConfig plain(const char* preset) { return preset_registry().at(preset).model; }

ModelConfig with_dtn(const char* preset) {
  ModelConfig c = preset_registry().at(preset).model;
  c.norm.type = "dtn";
  if (c.family == "t2t_vit") c.class_token_at = 10;
  return c;
}

struct Size {
  const char* preset;
  std::int64_t parameters, multiply_adds;
};

// With the preset's normalizers both counts of multiply-adds are equal.
TEST(FamilySizes, AreExact) {
  for (const Size& want :
       {Size{"levit_128s", 7777058, 304660832}, Size{"t2t_vit_t_14", 21541070, 6088721920},
        Size{"resnet50", 25557032, 4089184256}, Size{"regnety_160", 83590140, 15911510272}}) {
    const Complexity got = complexity_of(plain(want.preset));
    EXPECT_EQ(got.parameters, want.parameters) << want.preset;
    EXPECT_EQ(got.multiply_adds, static_cast<double>(want.multiply_adds)) << want.preset;
    EXPECT_EQ(got.paper_multiply_adds, got.multiply_adds) << want.preset;
  }
}

struct DtnSize {
  const char* preset;
  std::int64_t parameters, by_paper, real;
};

TEST(FamilySizes, WithDtnAreExact) {
  for (const DtnSize& want : {DtnSize{"levit_128s", 7777658, 317445472, 309367136},
                              DtnSize{"t2t_vit_t_14", 21541790, 6365992960, 6155253760}}) {
    const Complexity got = complexity_of(with_dtn(want.preset));
    EXPECT_EQ(got.parameters, want.parameters) << want.preset;
    EXPECT_EQ(got.paper_multiply_adds, static_cast<double>(want.by_paper)) << want.preset;
    EXPECT_EQ(got.multiply_adds, static_cast<double>(want.real)) << want.preset;
  }
}

TEST(FamilySizes, OneHeadIsExact) {
  ModelConfig c = plain("levit_128s");
  c.distilled = false;
  EXPECT_EQ(complexity_of(c).parameters, 7391290);
}

// A class token that joins late skips the earlier blocks.
TEST(FamilySizes, LateClassTokenIsExact) {
  ModelConfig c = with_dtn("t2t_vit_t_14");
  c.norm.type = "ln";
  EXPECT_EQ(complexity_of(c).multiply_adds, 6070958080.0);
}

// Only norm.type loses its weights and biases, not the LayerNorms that the architecture prescribes.
TEST(FamilySizes, WithoutAffineAreExact) {
  ModelConfig vit = plain("vit_s");
  EXPECT_EQ(complexity_of(vit).parameters, 22021096 + 20 * 2 * 384);
  vit.norm.affine = false;
  vit.norm.layers = 10;
  EXPECT_EQ(complexity_of(vit).parameters, 22021096);
  vit.norm.type = "dtn";  // 4 values per head: two lambdas, and the weights and bias of positions
  EXPECT_EQ(complexity_of(vit).parameters, 22021096 + 20 * (2 * 6 + 4 * 6));
}

void expect_affine_error(const ModelConfig& c, std::initializer_list<const char*> words) {
  try {
    Classifier model(c, 0);
    ADD_FAILURE() << test::title_of(c);
  } catch (const ConfigError& e) {
    const std::string message = e.what();
    for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << message;
  }
}

// Each transformer leaves out two norms of C channels per block of norm.type.
TEST(FamilySizes, EveryTransformerHonoursAffine) {
  for (const ModelConfig& config : test::tiny_models()) {
    ModelConfig c = config;
    c.norm.affine = false;
    if (c.family == "resnet" || c.family == "regnet" || c.family == "levit") {
      expect_affine_error(c, {"model.norm.affine", "weight starts at 0"});
      continue;
    }
    if (c.class_token_at == 0 && (c.family == "vit" || c.family == "t2t_vit") &&
        c.norm_layers() == 0) {
      expect_affine_error(c, {"model.norm.affine has no effect", "model.norm.layers"});
      c.norm.layers = 1;
    }
    c.norm.affine = true;
    Classifier with(c, 0);
    c.norm.affine = false;
    Classifier without(c, 0);
    std::set<std::string> left, missing;
    for (const Parameter& p : without.parameters().parameters()) left.insert(p.name);
    for (const Parameter& p : with.parameters().parameters()) {
      if (!left.contains(p.name)) missing.insert(p.name);
    }
    EXPECT_FALSE(missing.empty()) << test::title_of(c);
    EXPECT_EQ(left.size() + missing.size(), with.parameters().parameters().size());
    for (const std::string& name : missing) {
      const bool is_site =
          name.find("norm1.") != std::string::npos || name.find("norm2.") != std::string::npos;
      EXPECT_TRUE(is_site && (name.ends_with("weight") || name.ends_with("bias"))) << name;
    }
  }
}

TEST(FamilySizes, CountTrainedParameters) {
  Classifier model(plain("t2t_vit_t_14"), 0, DType::kFloat32, kMeta);
  std::int64_t trained = 0;
  for (const Parameter& p : model.parameters().parameters()) {
    if (!p.frozen) trained += p.shape.numel();
  }
  EXPECT_EQ(trained, 21465422);
  EXPECT_EQ(model.parameters().count() - trained, 75648);
}

TEST(FamilySizes, MatchParametersOfModel) {
  for (const ModelConfig& c : test::tiny_models()) {
    Classifier model(c, 0);
    EXPECT_EQ(complexity_of(c).parameters, model.parameters().count()) << test::title_of(c);
  }
}

}  // namespace
}  // namespace dtn
