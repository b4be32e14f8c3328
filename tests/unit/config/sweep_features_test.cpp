// `features:` and `paper_features:` of sweep files.
#include "config/sweeps/sweep_config.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

class SweepFeatureKeys : public ::testing::Test {
 protected:
  SweepFeatureKeys() {
    folder_.write("base.yaml",
                  "model: {preset: vit_t, norm: ln}\nschedule: {epochs: 100}\n"
                  "train: {batch_size: 32}\n");
  }

  SweepConfig load(const std::string& text, const std::vector<std::string>& set = {}) {
    return load_sweep(folder_.write("s.yaml", text), set, fake_schemas());
  }
  // A sweep of one variant. The value of `features:` is in the second line.
  SweepConfig with(const std::string& features, const std::string& variant = "",
                   const std::vector<std::string>& set = {}) {
    return load(
        "base: base.yaml\nfeatures: " + features + "\nvariants: [{name: a" + variant + "}]\n", set);
  }
  // An evaluation by k-NN after these epochs.
  static std::string knn_after(const std::string& epochs) {
    return "{evaluations: [{name: knn, task: knn}], epochs: " + epochs + "}";
  }
  std::optional<Period> kept(const std::string& epochs, const std::vector<std::string>& set = {}) {
    return with(knn_after(epochs), "", set).variants[0].config.train.keep_every;
  }

  TempFolder folder_;
};

TEST_F(SweepFeatureKeys, AreThoseOfDtnEval) {
  const SweepConfig s = with(R"(
  evaluations:
    - {name: linear, label: "linear, 2 blocks", task: linear, blocks: 2, epochs: 30, lr: 2.0e-3,
       batch: 256, augment: false}
    - {name: pooled, task: linear, avgpool: true}
    - {name: knn, task: knn, k: 10, temperature: 0.1}
    - {name: plain, task: linear}
  epochs: [20, 100])");
  ASSERT_EQ(s.features.evaluations.size(), 4u);
  EXPECT_EQ(s.features.epochs, (std::vector<int>{20, 100}));
  const SweepEvaluation &linear = s.features.evaluations[0], &pooled = s.features.evaluations[1];
  EXPECT_EQ(linear.name, "linear");
  EXPECT_EQ(linear.label, "linear, 2 blocks");
  EXPECT_EQ(linear.how, (FeatureEvaluation{.task = "linear",
                                           .blocks = 2,
                                           .epochs = 30,
                                           .lr = 2e-3,
                                           .batch = 256,
                                           .augment = false}));
  EXPECT_EQ(pooled.label, "pooled");
  EXPECT_EQ(pooled.how.block_count(), 1);
  EXPECT_TRUE(pooled.how.augment);
  EXPECT_EQ(s.features.evaluations[2].how,
            (FeatureEvaluation{.task = "knn", .k = 10, .temperature = 0.1}));
  EXPECT_EQ(s.features.evaluations[3].how.block_count(), 4);
  EXPECT_TRUE(load("base: base.yaml\nvariants: [{name: a}]\n").features.evaluations.empty());
}

TEST_F(SweepFeatureKeys, RunsKeepTheCheckpoints) {
  EXPECT_EQ(kept("[20, 40, 100]"), (Period{20, true}));
  EXPECT_EQ(kept("[20, 50]"), (Period{10, true}));
  EXPECT_EQ(kept("[60, 100]"), (Period{60, true}));
  EXPECT_EQ(kept("null"), std::nullopt);
  EXPECT_EQ(kept("[100]"), std::nullopt) << "the last step always has a checkpoint";
  EXPECT_EQ(kept("[20, 40]", {"train.keep_every=5epoch"}), (Period{5, true}));
  for (const char* period : {"30epoch", "20"}) {
    expect_contains(
        error_of([&] { kept("[20, 40]", {std::string("train.keep_every=") + period}); }),
        "s.yaml:2:11: epochs: the checkpoints of these epochs are not all kept; leave "
        "train.keep_every out of the config, or set it to 20epoch (variant 'a')");
  }
  expect_contains(error_of([&] { kept("[20, 101]"); }),
                  "epochs: the run has no epoch 101; schedule.epochs is 100");
  expect_contains(error_of([&] {
                    kept("[20]", {"schedule.epochs=null", "schedule.steps=9"});
                  }),
                  "must be given as schedule.epochs, but the config sets schedule.steps");
}

TEST_F(SweepFeatureKeys, PaperFigures) {
  const SweepConfig one =
      with("{evaluations: [{name: knn, task: knn}]}", ", paper_features: {knn: 74.5}");
  EXPECT_EQ(one.variants[0].paper_features.at("knn"), std::vector<double>{74.5});
  const SweepConfig two = with(knn_after("[20, 40]"), ", paper_features: {knn: [58.8, 67.2]}");
  EXPECT_EQ(two.variants[0].paper_features.at("knn"), (std::vector<double>{58.8, 67.2}));
  EXPECT_TRUE(with(knn_after("[20]"), ", paper_features: null").variants[0].paper_features.empty());
  const auto error = [&](const char* figures) {
    return error_of([&] { with(knn_after("[20, 40]"), std::string(", ") + figures); });
  };
  expect_contains(error("paper_features: {knn: 3}"),
                  "s.yaml:3:39: paper_features.knn has 1 figure; the evaluation needs 2, one for "
                  "each of epochs (variant 'a')");
  expect_contains(error("paper_features: {kn: [1, 2]}"),
                  "there is no evaluation 'kn'; did you mean 'knn'? Evaluations: knn");
  expect_contains(error("paper_features: {knn: [1, 101]}"), "paper_features.knn");
  expect_contains(error("paper_features: 3"), "must be a map of evaluations and their figures");
  expect_contains(
      error_of([&] { load("base: base.yaml\nvariants: [{name: a, paper_features: {knn: 3}}]\n"); }),
      "there is no evaluation 'knn'. The sweep has no features:");
}

TEST_F(SweepFeatureKeys, AnInheritedValueIsReplaced) {
  folder_.write("parent.yaml", "base: base.yaml\nfeatures: " + knn_after("[20, 40]") +
                                   "\nvariants: [{name: a, paper_features: {knn: [1, 2]}}]\n");
  const std::string child = "base_sweep: parent.yaml\n";
  EXPECT_EQ(load(child).features.epochs, (std::vector<int>{20, 40}));
  EXPECT_EQ(load(child).variants[0].paper_features.at("knn"), (std::vector<double>{1, 2}));
  const std::string no_figures = "variants: [{name: a, paper_features: null}]\n";
  const SweepConfig other =
      load(child + "features: {evaluations: [{name: linear, task: linear}]}\n" + no_figures);
  EXPECT_TRUE(other.features.epochs.empty());
  EXPECT_EQ(other.features.evaluations[0].name, "linear");
  EXPECT_EQ(other.variants[0].config.train.keep_every, std::nullopt);
  EXPECT_TRUE(load(child + "features: null\n" + no_figures).features.evaluations.empty());
}

TEST_F(SweepFeatureKeys, ErrorsNameLineAndColumn) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"3", {"s.yaml:2:11", "features is a map of evaluations, epochs, not '3'"}},
      {"{epochs: [1]}", {"s.yaml:2:11", "no evaluations"}},
      {"{evaluations: []}", {"s.yaml:2:25", "not an empty list"}},
      {"{evaluations: [], epoch: 3}", {"s.yaml:2:29", "did you mean 'epochs'?"}},
      {"{evaluations: [knn]}", {"s.yaml:2:26", "an evaluation is a map of name"}},
      {"{evaluations: [{task: knn}]}", {"s.yaml:2:26", "has no name"}},
      {"{evaluations: [{name: a}]}", {"s.yaml:2:26", "has no task"}},
      {"{evaluations: [{name: a/b, task: knn}]}", {"s.yaml:2:33", "cannot name a folder"}},
      {"{evaluations: [{name: a, task: nn}]}", {"s.yaml:2:42", "knn", "linear"}},
      {"{evaluations: [{name: a, task: knn}, {name: a, task: knn}]}",
       {"s.yaml:2:55", "two evaluations are named 'a'"}},
      {"{evaluations: [{name: a, task: knn, blocks: 2}]}",
       {"s.yaml:2:47", "blocks is a key of task: linear, but the task of this evaluation is knn"}},
      {"{evaluations: [{name: a, task: linear, k: 2}]}",
       {"s.yaml:2:50", "k is a key of task: knn, but the task of this evaluation is linear"}},
      {"{evaluations: [{name: a, task: knn, K: 2}]}", {"s.yaml:2:47", "unknown key 'K'"}},
      {"{evaluations: [{name: a, task: knn, k: 0}]}", {"s.yaml:2:50", "at least 1"}},
      {"{evaluations: [{name: a, task: linear, avgpool: true, blocks: 2}]}",
       {"s.yaml:2:73", "blocks is 2; leave blocks out"}},
      {"{evaluations: [{name: a, task: knn}], epochs: 3}", {"s.yaml:2:57", "like [20, 40]"}},
      {"{evaluations: [{name: a, task: knn}], epochs: [0]}", {"s.yaml:2:58", "at least 1"}},
      {"{evaluations: [{name: a, task: knn}], epochs: [2, 2]}",
       {"s.yaml:2:61", "epochs must increase, 2 comes after 2"}},
  };
  for (const auto& [features, parts] : cases) {
    const std::string message = error_of([&] { with(features); });
    for (const char* part : parts) expect_contains(message, part);
  }
}

}  // namespace
}  // namespace dtn::testing
