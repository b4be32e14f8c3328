// Analyses of whole models: results that are bit-identical for any number of threads, array shapes
// of models with stages, and values that are not finite.
#include <cmath>
#include <limits>

#include "analysis_cases.h"
#include "dtn/core/parallel.h"
#include "tensors.h"
#include "tiny_models.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

using namespace dtn::test;
using Json = nlohmann::ordered_json;

class AnalyzeModels : public AnalysisFiles {
 protected:
  Json numbers(const std::vector<AnalysisSubject>& subjects, std::int64_t images,
               int classes) const {
    AnalysisOptions options;
    options.subjects = subjects;
    options.inputs = inputs(subjects[0].config.model, images, classes);
    return analyze(options).json;
  }
};

bool holds_null(const Json& value) {
  if (value.is_null()) return true;
  if (!value.is_structured()) return false;
  return std::ranges::any_of(value, holds_null);
}

TEST_F(AnalyzeModels, DoesNotDependOnThreads) {
  const int before = max_threads();
  std::string first;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const std::string text =
        numbers({subject("a", paper_vit()), subject("b", deit_vit())}, 19, 7).dump();
    if (first.empty()) first = text;
    EXPECT_TRUE(text == first) << threads << " threads";
  }
  set_num_threads(before);
}

TEST_F(AnalyzeModels, CkaOfEqualModelsIsOne) {
  const Json cka =
      numbers({subject("a", paper_vit()), subject("b", paper_vit())}, 5, 0)["cka"][0]["matrix"];
  ASSERT_EQ(cka.size(), 4u);
  for (std::size_t l = 0; l < 4; ++l) EXPECT_NEAR(cka[l][l].get<double>(), 1, 1e-12);
}

// The maps hold patches only, for any number of registers and class tokens.
TEST_F(AnalyzeModels, MapsLeaveOutPrefixTokens) {
  const ModelConfig config = prefix_vit();
  const Json json = numbers({subject("a", config)}, 3, 0)["checkpoints"][0];
  EXPECT_EQ(json["grid"], (Json{3, 3}));
  EXPECT_EQ(json["token_magnitude"]["map"][0][0][0].size(), 3u);
  EXPECT_EQ(json["pca_points"]["before"].size(), 27u);
  EXPECT_EQ(json["lambda_mean"][0][1].size(), static_cast<std::size_t>(config.num_heads.at(0)));
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_EQ(json["attention_to_class"].size(), 3u);
  double sum = 0;
  for (const Json& row : json["rollout"][0]) {
    for (const Json& share : row) sum += share.get<double>();
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

std::vector<ModelConfig> all_models() {
  std::vector<ModelConfig> models = tiny_models();
  for (const ModelConfig& c : checkpoint_vits()) models.push_back(c);
  for (const ModelConfig& c : {paper_vit(), prefix_vit(), wide_vit()}) models.push_back(c);
  return models;
}

// Counts the calls of an observer.
struct Counter : Observer {
  std::size_t begun = 0, norms = 0, attentions = 0, branches = 0, ended = 0;
  void begin_layer(const Tensor&, const TokenGrid&) override { ++begun; }
  void normalized(const Normalizer&, const Tensor&, const Tensor&, const TokenGrid&) override {
    ++norms;
  }
  void attention(const AttentionView&) override { ++attentions; }
  void branch(Branch, const Tensor&, const TokenGrid&) override { ++branches; }
  void end_layer(const Tensor&, const TokenGrid&) override { ++ended; }
};

TEST(Observer, ObservesEveryLayerAndChangesNothing) {
  for (const ModelConfig& config : all_models()) {
    SCOPED_TRACE(config.family + " " + config.preset + " " + config.norm.type);
    Classifier model(config, 1);
    perturb(model.parameters());
    const Tensor images = some_images(config, 2, DType::kFloat32);
    Context ctx;
    ctx.mode.skip_unread = false;
    const Doubles alone = doubles(model.forward(ctx, images).value());
    Counter counter;
    ctx.observer = &counter;
    EXPECT_EQ(doubles(model.forward(ctx, images).value()), alone);
    const std::vector<LayerInfo> layers = model.backbone().layers();
    std::size_t norms = 0, attentions = 0;
    for (const LayerInfo& layer : layers) {
      norms += layer.norms.size();
      attentions += layer.heads > 0;
      for (const LayerInfo::Norm& norm : layer.norms) {
        const bool found = std::ranges::any_of(
            model.parameters().parameters(),
            [&](const Parameter& p) { return p.name.starts_with(norm.path + "."); });
        EXPECT_TRUE(found) << norm.path;
      }
    }
    EXPECT_EQ(counter.begun, layers.size());
    EXPECT_EQ(counter.ended, layers.size());
    EXPECT_EQ(counter.norms, norms);
    EXPECT_EQ(counter.attentions, attentions);
    EXPECT_EQ(counter.branches > 0, attentions > 0);
  }
}

TEST_F(AnalyzeModels, SupportsEveryFamily) {
  for (const ModelConfig& config : all_models()) {
    SCOPED_TRACE(config.family + " " + config.preset + " " + config.norm.type);
    const std::string name = config.family + config.preset + config.norm.type;
    const Json json = numbers({subject(name, config)}, 3, config.num_classes)["checkpoints"][0];
    const std::size_t depth = json["depth"];
    for (const char* key :
         {"attention_distance", "attention_entropy", "attention_entropy_uniform",
          "variation_coefficient", "lambda_mean", "p_radius", "token_cosine", "branch_rms"}) {
      EXPECT_EQ(json[key].size(), depth) << key;
    }
    EXPECT_EQ(json["residual_rms"].size(), depth + 1);
    EXPECT_FALSE(holds_null(json["residual_rms"]));
    EXPECT_EQ(holds_null(json["gradient_norm"]), config.num_classes == 0);
    EXPECT_EQ(json["loss"].is_null(), config.num_classes == 0);
    const bool staged = json["grid"][0].is_array();
    EXPECT_EQ(json["heads"].is_array(), staged);
    EXPECT_EQ(json["rollout"].is_null(), staged);
    if (!holds_null(json["heads"])) {
      EXPECT_FALSE(holds_null(json["attention_distance"]));
      EXPECT_FALSE(holds_null(json["token_magnitude_full"]["mean"][0][0]));
    }
  }
}

TEST_F(AnalyzeModels, WritesNonFiniteNumbersAsNull) {
  const auto spoil = [](ParameterStore& store) {
    fill_by_place(store);
    Tensor bias = store.find("blocks.1.mlp.fc2.bias")->variable.value();
    bias.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  };
  const Json json = numbers({subject("a", paper_vit(), spoil)}, 3, 7)["checkpoints"][0];
  EXPECT_EQ(json.dump().find("nan"), std::string::npos);
  EXPECT_TRUE(json["residual_rms"][2].is_null());
  EXPECT_FALSE(json["residual_rms"][1].is_null());
  EXPECT_TRUE(json["loss"].is_null());
}

TEST_F(AnalyzeModels, RejectsInvalidOptions) {
  AnalysisOptions options;
  options.subjects = {subject("a", paper_vit())};
  options.inputs = inputs(paper_vit(), 3, 9);  // labels up to 2
  options.token = 9;
  EXPECT_THROW(analyze(options), ConfigError);
  options.token = 8;
  EXPECT_EQ(analyze(options).json["checkpoints"][0]["center_token"], 8);
  options.inputs = inputs(paper_vit(), 9, 9);  // labels up to 8, of 7 classes
  EXPECT_THROW(analyze(options), DataError);
  options.inputs = inputs(wide_vit(), 3, 0);
  EXPECT_THROW(analyze(options), DataError);
  options.inputs = inputs(paper_vit(), 3, 0);
  options.subjects.push_back(subject("b", wide_vit()));
  EXPECT_THROW(analyze(options), ConfigError);
}

}  // namespace
}  // namespace dtn
