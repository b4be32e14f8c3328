// Features of frozen models, against the last norm and the means computed by hand.
#include "tasks/frozen/frozen_features.h"

#include "dtn/config/load.h"
#include "dtn/models/weights.h"
#include "dtn/nn/observer.h"
#include "tiny_vit.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kImages = 3;

ExperimentConfig config_with(const ModelConfig& model) {
  ExperimentConfig config;
  config.model = model;
  config.seed = 4;
  return config;
}

FrozenFeatures frozen(const ModelConfig& model, const FeatureChoice& choice = {}) {
  return FrozenFeatures(config_with(model), kCpu, standard_registries(), choice);
}

// The residual streams after the blocks of a pass, in float64: [B, T, C] each.
struct Streams : Observer {
  struct Layer {
    Tensor x;
    TokenGrid grid;
  };
  void end_layer(const Tensor& x, const TokenGrid& grid) override {
    layers.push_back({as(x, DType::kFloat64), grid});
  }
  std::vector<Layer> layers;
};

std::vector<Streams::Layer> streams_of(Classifier& model, const Tensor& images) {
  Streams streams;
  Context ctx;
  ctx.observer = &streams;
  ctx.mode.skip_unread = false;
  model.forward(ctx, images);
  return streams.layers;
}

// One token after the last norm.
Doubles normed(Classifier& model, const Streams::Layer& layer, std::int64_t image,
               std::int64_t token) {
  const std::int64_t channels = layer.x.dim(2);
  const double* x = layer.x.data<double>() + (image * layer.x.dim(1) + token) * channels;
  const Tensor weight = model.parameters().find("norm.weight")->variable.value();
  const Tensor bias = model.parameters().find("norm.bias")->variable.value();
  const auto n = static_cast<double>(channels);
  double mean = 0, variance = 0;
  for (std::int64_t c = 0; c < channels; ++c) mean += x[c] / n;
  for (std::int64_t c = 0; c < channels; ++c) variance += (x[c] - mean) * (x[c] - mean) / n;
  const double scale = 1 / std::sqrt(variance + model.config().eps);
  Doubles y;
  for (std::int64_t c = 0; c < channels; ++c) {
    y.push_back((x[c] - mean) * scale * element(weight, c) + element(bias, c));
  }
  return y;
}

// The mean of the patches after the last norm.
Doubles patch_mean(Classifier& model, const Streams::Layer& layer, std::int64_t image) {
  Doubles mean(static_cast<std::size_t>(layer.x.dim(2)));
  const std::int64_t patches = layer.grid.height * layer.grid.width;
  for (std::int64_t t = 0; t < patches; ++t) {
    const Doubles y = normed(model, layer, image, layer.grid.prefix + t);
    for (std::size_t c = 0; c < y.size(); ++c) mean[c] += y[c] / static_cast<double>(patches);
  }
  return mean;
}

void expect_row(const Tensor& features, std::int64_t row, const Doubles& wanted) {
  ASSERT_EQ(features.dim(1), static_cast<std::int64_t>(wanted.size()));
  for (std::size_t c = 0; c < wanted.size(); ++c) {
    EXPECT_NEAR(element(features, row * features.dim(1) + static_cast<std::int64_t>(c)), wanted[c],
                2e-5)
        << "row " << row << ", column " << c;
  }
}

// The class token of paper_vit() joins before the last of three blocks.
TEST(FrozenFeatures, BlocksWithoutClassTokenGiveTheirPatchMean) {
  FrozenFeatures features = frozen(paper_vit(), {.blocks = 3});
  Classifier& model = features.model();
  perturb(model.parameters());
  const Tensor images = some_images(model.config(), kImages, DType::kFloat32);
  const auto streams = streams_of(model, images);
  ASSERT_EQ(streams.size(), 3u);
  ASSERT_EQ(streams[1].grid.prefix, 0);
  ASSERT_EQ(streams[2].grid.prefix, 1);
  const Tensor rows = features.of({{"image", images}});
  EXPECT_EQ(features.width(), 60);
  for (std::int64_t i = 0; i < kImages; ++i) {
    Doubles wanted = patch_mean(model, streams[0], i);
    for (const Doubles& part :
         {patch_mean(model, streams[1], i), normed(model, streams[2], i, 0)}) {
      wanted.insert(wanted.end(), part.begin(), part.end());
    }
    expect_row(rows, i, wanted);
  }
  EXPECT_NE(features.description().find("2 of the blocks gave the mean of their patches"),
            std::string::npos)
      << features.description();
}

TEST(FrozenFeatures, PatchMeanAlternatesWithClassToken) {
  FrozenFeatures features = frozen(deit_vit(), {.blocks = 1, .patch_mean = true});
  Classifier& model = features.model();
  perturb(model.parameters());
  const Tensor images = some_images(model.config(), kImages, DType::kFloat32);
  const Streams::Layer last = streams_of(model, images).back();
  const Tensor rows = features.of({{"image", images}});
  for (std::int64_t i = 0; i < kImages; ++i) {
    const Doubles token = normed(model, last, i, 0), mean = patch_mean(model, last, i);
    Doubles wanted;
    for (std::size_t c = 0; c < token.size(); ++c) {
      wanted.push_back(token[c]);
      wanted.push_back(mean[c]);
    }
    expect_row(rows, i, wanted);
  }
}

// For all vision transformers, one block gives what the head reads.
TEST(FrozenFeatures, LastBlockEqualsPooledVector) {
  std::vector<ModelConfig> models = checkpoint_vits();
  for (const ModelConfig& m : {paper_vit(), deit_vit(), mean_vit(), prefix_vit(), wide_vit()}) {
    models.push_back(m);
  }
  for (const ModelConfig& config : models) {
    SCOPED_TRACE(config.preset);
    FrozenFeatures pooled = frozen(config), block = frozen(config, {.blocks = 1});
    perturb(pooled.model().parameters());
    perturb(block.model().parameters());
    const Fields images{{"image", some_images(config, kImages, DType::kFloat32)}};
    const Doubles a = doubles(pooled.of(images)), b = doubles(block.of(images));
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4 * (1 + std::abs(a[i])));
  }
}

TEST(FrozenFeatures, TakesBackboneOfEveryKindOfFile) {
  Classifier source(deit_vit(), 77);
  perturb(source.parameters());
  const NamedTensors plain = named_values(source.parameters());
  NamedTensors backbone, wrapped;
  const Tensor other = Tensor::zeros({3, 5}, DType::kFloat32);
  for (const auto& [name, tensor] : plain) {
    if (source.is_head(name)) continue;
    backbone.emplace_back("backbone." + name, tensor);
    wrapped.emplace_back("module.backbone." + name, tensor);
  }
  for (const char* head : {"head.mlp.0.weight", "head.last_layer.weight_v"}) {
    backbone.emplace_back(head, other);
    wrapped.emplace_back(cat("module.", head), other);
  }
  const Fields images{{"image", some_images(deit_vit(), kImages, DType::kFloat32)}};
  Context ctx;
  const Doubles wanted = doubles(source.features(ctx, images).front().value());
  for (const NamedTensors& tensors : {plain, backbone, wrapped}) {
    FrozenFeatures features = frozen(deit_vit());
    features.load({tensors, {}}, "file");
    EXPECT_EQ(doubles(features.of(images)), wanted);
  }
}

// Random weights depend on the names of parameters, and a task may put these below `backbone.`.
TEST(FrozenFeatures, RestartsLikeTheTrainingOfAFile) {
  ExperimentConfig config = config_with(deit_vit());
  ParameterStore inner;
  const Registries& registries = standard_registries();
  const auto backbone = registries.models.at(config.model.family)
                            .make(Scope{inner, "", &registries.norms} / "backbone", config.model);
  inner.allocate();
  inner.initialize(config.seed);
  const NamedTensors trained = named_values(inner);
  Classifier plain(deit_vit(), config.seed);
  const Fields images{{"image", some_images(deit_vit(), kImages, DType::kFloat32)}};
  FrozenFeatures features = frozen(deit_vit());
  const Doubles other = doubles(features.of(images));
  features.restart_like({trained, {}});
  Context ctx;
  EXPECT_EQ(doubles(features.of(images)), doubles(backbone->pooled(ctx, images).value()));
  EXPECT_NE(doubles(features.of(images)), other);
  features.restart_like({named_values(plain.parameters()), {}});
  EXPECT_EQ(doubles(features.of(images)), other);
}

void expect_refused(const ModelConfig& model, const FeatureChoice& choice, const char* reason) {
  try {
    frozen(model, choice);
    ADD_FAILURE() << "expected: " << reason;
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << e.what();
  }
}

TEST(FrozenFeatures, RefusesWhatModelDoesNotHave) {
  expect_refused(deit_vit(), {.blocks = 4}, "the model has 3 blocks, fewer than the 4 to combine");
  expect_refused(mean_vit(), {.blocks = 1, .patch_mean = true}, "the last block has none");
  const ExperimentConfig resnet = parse_experiment("model: {preset: resnet50, image_size: 32}\n",
                                                   "test", {}, standard_registries().schemas());
  expect_refused(resnet.model, {.blocks = 4}, "this model gives its pooled vector only");
  expect_refused(resnet.model, {.blocks = 4}, "use --blocks 1");
  EXPECT_EQ(frozen(resnet.model).width(), 2048);
}

}  // namespace
}  // namespace dtn::test
