// Compares k-NN, the linear classifier and frozen features with PyTorch in float64. The expected
// values are in tests/golden/self_supervised, which make_self_supervised_goldens.py writes.
#include <filesystem>
#include <string>

#include "dtn/config/load.h"
#include "dtn/io/safetensors.h"
#include "dtn/tasks/classify.h"
#include "tasks/frozen/frozen_features.h"
#include "tasks/frozen/linear_probe.h"
#include "tasks/frozen/nearest_neighbors.h"
#include "tensors.h"

namespace dtn::test {
namespace {

const std::string kFolder = DTN_TESTS_FOLDER "/golden/self_supervised/";

TensorFile read_golden(const std::string& name) {
  return read_safetensors(kFolder + name + ".safetensors");
}

double scalar(const TensorFile& file, const std::string& name) {
  const Tensor& t = *file.find(name);
  return t.dtype() == DType::kInt64 ? static_cast<double>(t.values<std::int64_t>()[0])
                                    : element(t, 0);
}

TEST(FrozenGolden, NearestNeighborsEqualPyTorch) {
  const TensorFile file = read_golden("knn");
  for (const std::int64_t k : {1, 10, 20, 200}) {
    SCOPED_TRACE(k);
    const std::string prefix = cat("k", k, ".");
    const NearestNeighbors neighbors(*file.find("train_features"), *file.find("train_labels"),
                                     {.k = k});
    const Neighbors found = neighbors.find(*file.find("features"));
    const auto predicted = file.find(prefix + "predicted")->values<std::int64_t>();
    const std::int64_t ranked = found.ranking.dim(1);
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      EXPECT_EQ(found.ranking.values<std::int64_t>()[i * static_cast<std::size_t>(ranked)],
                predicted[i])
          << "query " << i;
    }
    const Metrics metrics = accuracy_of(hits_of(found, *file.find("labels")));
    EXPECT_DOUBLE_EQ(metrics.at("top1"), scalar(file, prefix + "top1"));
    EXPECT_DOUBLE_EQ(metrics.at("top5"), scalar(file, prefix + "top5"));
  }
}

TEST(FrozenGolden, LinearClassifierEqualsPyTorch) {
  const TensorFile file = read_golden("linear");
  const Tensor &x = *file.find("train_features"), &start = *file.find("linear.weight");
  const auto batch = static_cast<std::int64_t>(scalar(file, "batch"));
  const int epochs = static_cast<int>(scalar(file, "epochs"));
  // The file has the rate of the first epoch, lr batch / 256.
  const double lr = scalar(file, "lr") * 256 / static_cast<double>(batch);
  LinearProbe probe(x.dim(1), start.dim(0), {.epochs = epochs, .lr = lr, .batch = batch});
  for (const char* name : {"linear.weight", "linear.bias"}) {
    assign(probe.parameters().find(name)->variable.value(), *file.find(name));
  }
  for (int epoch = 0; epoch < epochs; ++epoch) {
    probe.begin_epoch(epoch);
    probe.add(x, *file.find("train_labels"));
    probe.end_epoch();
  }
  for (const char* name : {"linear.weight", "linear.bias"}) {
    const Doubles got = doubles(probe.parameters().find(name)->variable.value());
    const Doubles want = doubles(*file.find(cat("expected.", name)));
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << name;
  }
  AccuracyMeter meter;
  meter.add({{"label", *file.find("labels")}}, {{"logits", probe.logits(*file.find("features"))}});
  const Metrics metrics = meter.result();
  EXPECT_DOUBLE_EQ(metrics.at("top1"), scalar(file, "top1"));
  EXPECT_DOUBLE_EQ(metrics.at("top5"), scalar(file, "top5"));
  EXPECT_NEAR(metrics.at("loss"), scalar(file, "loss"), 1e-5);
}

ExperimentConfig config_of(const std::string& golden_case) {
  const bool late = golden_case == "late_token";
  return parse_experiment(cat("model: {preset: ", late ? "vit_t" : "deit_tiny",
                              ", image_size: 16, patch_size: 4, embed_dim: 16, depth: 3, "
                              "num_heads: 4, mlp_ratio: 2",
                              late ? ", class_token_at: 2, norm: dtn}" : "}"),
                          "golden", {}, standard_registries().schemas());
}

TEST(FrozenGolden, FeaturesEqualPyTorch) {
  const TensorFile file = read_golden("features");
  struct Choice {
    const char* name;
    FeatureChoice choice;
  };
  const Choice choices[] = {{"pooled", {}},
                            {"blocks1", {.blocks = 1}},
                            {"blocks2", {.blocks = 2}},
                            {"blocks3", {.blocks = 3}},
                            {"interleaved", {.blocks = 1, .patch_mean = true}}};
  for (const std::string golden_case : {"frozen", "late_token"}) {
    for (const auto& [name, choice] : choices) {
      FrozenFeatures features(config_of(golden_case), kCpu, standard_registries(), choice);
      const std::string init = cat("dino_", golden_case, "_init");
      features.load(read_golden(init), init);
      for (const int side : {16, 24}) {  // the size of the model, and another
        SCOPED_TRACE(cat(golden_case, " ", name, " ", side));
        const Doubles got = doubles(features.of({{"image", *file.find(cat("images", side))}}));
        const Doubles want = doubles(*file.find(cat(golden_case, ".", side, ".", name)));
        ASSERT_EQ(got.size(), want.size());
        const double tolerance = 1e-5 * max_abs(want);
        for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
