// Evaluations of frozen features in sweeps: what is evaluated, kept and shown.
#include "apps/sweep/feature_runs.h"

#include <nlohmann/json.hpp>

#include "apps/sweep/known_runs.h"
#include "apps/sweep/sweep_report.h"
#include "apps/sweep/sweep_size.h"
#include "tasks/frozen/frozen_features.h"
#include "texts.h"
#include "train/checkpoint.h"
#include "unit/sweep/sweep_folder.h"

namespace dtn {
namespace {
namespace fs = std::filesystem;
using test::error_of;
using test::expect_contains;

constexpr const char* kLinearAndKnn =
    "features:\n  epochs: [2, 6]\n  evaluations:\n"
    "    - {name: linear, label: \"linear, 2 blocks\", task: linear, blocks: 2, augment: false}\n"
    "    - {name: knn, task: knn, k: 5}\n";
constexpr const char* kPaper =
    "base_sweep: s.yaml\n"
    "variants: [{name: dtn, paper_features: {linear: [58.8, 67.25]}}]\n";

class SweepFeatureRuns : public test::SweepFolder {
 protected:
  SweepFeatureRuns() {
    // The evaluator is a script in place of dtn-eval. Its top-1 depends on the step and the seed.
    options_.device = "cpu";
    options_.output = out();
    options_.evaluator = {"sh",
                          write("evaluator.sh",
                                "echo \"$@\"\n"
                                "case \"$*\" in *step-00000010*) top1=40;; *) top1=50;; esac\n"
                                "case \"$*\" in *seed-1*) top1=$((top1 + 1));; esac\n"
                                "echo '{\"top1\":'$top1'.5,\"top5\":90,\"loss\":null}'\n")};
  }

  SweepConfig features(const std::string& more = kLinearAndKnn) const { return load(more); }
  SweepConfig with_paper() const {
    features();
    return load_sweep(write("paper.yaml", kPaper), {}, standard_registries().schemas());
  }

  // Returns the runs; those of `ln` are finished, and have checkpoints of these steps.
  std::vector<SweepRun> runs_of(const SweepConfig& sweep, const std::vector<int>& steps) const {
    std::vector<SweepRun> runs = plan_runs(sweep, out(), {});
    for (SweepRun* run : {&runs[0], &runs[1]}) {
      finish(*run, {30, 35, 40, 45, 50, 55});
      for (const int step : steps) fs::create_directories(checkpoint_path(run->folder, step));
      fs::create_directory_symlink("step-00000030", run->folder / "checkpoints" / "last");
      update_state(*run);
    }
    return runs;
  }
  SweepReport report(const SweepConfig& sweep, const std::vector<SweepRun>& runs) const {
    return {sweep, collect_results(sweep, runs, costs_of(sweep, standard_registries())), "out",
            "dtn-sweep"};
  }

  SweepOptions options_;
};

TEST_F(SweepFeatureRuns, EvaluateCheckpointsOnce) {
  const SweepConfig sweep = features();
  const std::vector<SweepRun> runs = runs_of(sweep, {10, 30});
  const std::vector<FeaturePoint> points = feature_points(sweep.features);
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(point_title(sweep.features, points[1]), "linear, epoch 6");
  EXPECT_EQ(features_left(sweep, runs), 12u) << "four of each run, also of the one to do";
  EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFinished);
  EXPECT_EQ(features_left(sweep, runs), 4u);
  EXPECT_EQ(feature_result(sweep, runs[0], points[0]), 40.5);
  EXPECT_EQ(feature_result(sweep, runs[1], points[3]), 51.5);
  const std::string log = read("out/ln/seed-0/features/linear-2.log");
  expect_contains(log,
                  "checkpoints/step-00000010 --task linear --json --blocks 2 --epochs 100 "
                  "--lr 0.001 --batch 1024 --no-augment --device cpu --threads 1");
  expect_contains(read("out/ln/seed-0/features/knn-6.log"),
                  "checkpoints/step-00000030 --task knn --json --k 5 --temperature 0.07 ");
  const auto saved = nlohmann::json::parse(read("out/ln/seed-0/features/knn-6.json"));
  EXPECT_EQ(
      saved["inputs"],
      (nlohmann::json{
          {"task", "knn"}, {"k", 5}, {"temperature", 0.07}, {"step", 30}, {"average", false}}));
  EXPECT_EQ(saved["result"]["top5"], 90);
  options_.evaluator = {"false"};
  EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFinished);
}

TEST_F(SweepFeatureRuns, ChangedKeysEvaluateAgain) {
  SweepConfig sweep = features();
  std::vector<SweepRun> runs = runs_of(sweep, {10, 30});
  EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFinished);
  const FeaturePoint last = feature_points(sweep.features)[3];
  sweep.features.evaluations[1].how.k = 7;
  EXPECT_EQ(feature_result(sweep, runs[0], last), std::nullopt);
  EXPECT_EQ(features_left(sweep, runs), 4u + 4u);
  options_.evaluator = {"false"};
  EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFailed);
  sweep.features.evaluations[1].how.k = 5;
  EXPECT_EQ(feature_result(sweep, runs[0], last), 50.5) << "a failure leaves the result before it";
  runs[0].step = 60;  // the run was trained again, for longer
  EXPECT_EQ(feature_result(sweep, runs[0], last), std::nullopt);
}

TEST_F(SweepFeatureRuns, MissingCheckpointsAndFailures) {
  const SweepConfig sweep = features();
  const std::vector<SweepRun> runs = runs_of(sweep, {30});
  EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFailed);
  EXPECT_EQ(features_left(sweep, runs), 4u + 4u) << "the others are evaluated";
  EXPECT_FALSE(fs::exists(out() / "ln" / "seed-0" / "features" / "linear-2.json"));
  for (const char* output : {"echo '{\"top1\":null}'\n", "echo done\n", "exit 3\n"}) {
    options_.evaluator = {"sh", write("evaluator.sh", output)};
    fs::remove_all(out() / "ln" / "seed-0" / "features");
    EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFailed) << output;
    EXPECT_FALSE(fs::exists(out() / "ln" / "seed-0" / "features" / "knn-6.json")) << output;
  }
}

TEST_F(SweepFeatureRuns, DataMayHaveMoved) {
  SweepConfig sweep = features();
  std::vector<SweepRun> runs = runs_of(sweep, {10, 30});
  runs[0].config.data.root = "/mnt/my images";
  runs[0].config.data.val = "val2";
  EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFinished);
  expect_contains(read("out/ln/seed-0/features/knn-2.log"),
                  " --set data.root=\"/mnt/my images\" --set data.val=val2 --device");
}

TEST_F(SweepFeatureRuns, ResultsAreKeptWithoutWeights) {
  const SweepConfig sweep = features();
  const std::vector<SweepRun> runs = runs_of(sweep, {10, 30});
  EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFinished);
  fs::remove(runs[1].folder / "features" / "linear-2.json");
  for (const SweepRun* run : {&runs[0], &runs[1]}) keep_result(sweep, *run, folder_ / "kept");
  auto others = plan_runs(sweep, folder_ / "other", {});
  adopt_kept_results(others, folder_ / "kept", standard_registries().schemas());
  const auto results = collect_results(sweep, others, costs_of(sweep, standard_registries()));
  ASSERT_EQ(results[0].features.size(), 4u);
  EXPECT_EQ(results[0].features[0]->n, 1u);
  expect_contains(feature_markdown(report(sweep, others)),
                  "| LayerNorm | linear, 2 blocks | 40.50 (1 of 2) | 51.00 ± 0.71 |");
  EXPECT_EQ(results[0].features[3]->mean, 51);
  EXPECT_EQ(features_left(sweep, others), 4u) << "of the run to do; the rest has no weights";
  EXPECT_EQ(evaluate_features(sweep, options_, others), SweepStatus::kFinished);
}

TEST_F(SweepFeatureRuns, TableShowsPointsBesideThePaper) {
  const SweepConfig sweep = with_paper();
  const std::vector<SweepRun> runs = runs_of(sweep, {10, 30});
  EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFinished);
  const SweepReport all = report(sweep, runs);
  EXPECT_EQ(feature_markdown(all),
            R"(## Features of the frozen model: top-1 (%), in parentheses the paper's

| variant   |       evaluation |      epoch 2 |      epoch 6 |
| :-------- | ---------------: | -----------: | -----------: |
| LayerNorm | linear, 2 blocks | 41.00 ± 0.71 | 51.00 ± 0.71 |
| LayerNorm |              knn | 41.00 ± 0.71 | 51.00 ± 0.71 |
| dtn       | linear, 2 blocks |    - (58.80) |    - (67.25) |
| dtn       |              knn |            - |            - |

- linear, 2 blocks: linear classifier on the last 2 blocks; 1 of these blocks has no class token yet and gives the mean of its patches; 100 epochs, rate 0.001 for 256 images, batches of 1024, no augmentation.
- knn: the 5 nearest training images vote, temperature 0.07.
- A column shows the checkpoints of the same runs after so many epochs.
)");
  expect_contains(to_markdown(all), "\n\n## Features of the frozen model");
  const SweepConfig plain = load();
  EXPECT_EQ(to_markdown(report(plain, plan_runs(plain, out(), {}))).find("Features"),
            std::string::npos);
}

TEST_F(SweepFeatureRuns, DataHasEverySeed) {
  const SweepConfig sweep = with_paper();
  const std::vector<SweepRun> runs = runs_of(sweep, {10, 30});
  EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFinished);
  const SweepReport all = report(sweep, runs);
  const auto json = nlohmann::json::parse(to_json(all));
  EXPECT_EQ(json["features"][0]["label"], "linear, 2 blocks");
  EXPECT_EQ(json["features"][0]["augment"], false);
  EXPECT_EQ(json["features"][1]["k"], 5);
  const auto &ln = json["variants"][0]["features"], &dtn = json["variants"][1]["features"];
  EXPECT_EQ(ln["linear"][0]["epoch"], 2);
  EXPECT_EQ(ln["linear"][1]["mean"], 51);
  EXPECT_EQ(ln["linear"][1]["values"].dump(),
            R"([{"seed":0,"value":50.5},{"seed":1,"value":51.5}])");
  EXPECT_TRUE(ln["linear"][1]["paper"].is_null());
  EXPECT_EQ(dtn["linear"][1]["paper"], 67.25);
  EXPECT_EQ(dtn["linear"][1]["n"], 0);
  const std::string csv = to_csv(all);
  expect_contains(csv,
                  ",linear_epoch_2,paper_linear_epoch_2,linear_epoch_6,paper_linear_epoch_6,"
                  "knn_epoch_2,paper_knn_epoch_2,knn_epoch_6,paper_knn_epoch_6\n");
  expect_contains(csv, ",41.0,,51.0,,41.0,,51.0,\n");
  expect_contains(csv, ",,58.8,,67.25,,,,\n");
}

TEST_F(SweepFeatureRuns, WithoutEpochsTheLastCheckpointCounts) {
  const SweepConfig sweep = features("features: {evaluations: [{name: knn, task: knn}]}\n");
  const std::vector<SweepRun> runs = runs_of(sweep, {30});
  EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFinished);
  EXPECT_TRUE(fs::exists(out() / "ln" / "seed-1" / "features" / "knn-last.json"));
  const SweepReport all = report(sweep, runs);
  expect_contains(feature_markdown(all), "top-1 (%)\n");
  expect_contains(feature_markdown(all), "| LayerNorm |        knn | 51.00 ± 0.71 |\n");
  expect_contains(to_csv(all), ",knn,paper_knn\n");
}

TEST_F(SweepFeatureRuns, DryRunCountsThem) {
  const SweepConfig sweep = features();
  EXPECT_EQ(describe_sweep(sweep, options_).evaluations, 12u);
  std::vector<SweepRun> runs = runs_of(sweep, {10, 30});
  finish(runs[2], {1, 2, 3, 4, 5, 6});
  write("out/sweep.lock", "");
  const SweepForecast forecast = describe_sweep(sweep, options_);
  EXPECT_EQ(forecast.left, 0u);
  EXPECT_EQ(forecast.evaluations, 8u) << "the third run has no weights";
  expect_contains(forecast.text, "8 evaluations of features left; their time is not estimated");
  EXPECT_EQ(forecast.text.find("nothing is left"), std::string::npos);
  EXPECT_EQ(evaluate_features(sweep, options_, runs), SweepStatus::kFinished);
  expect_contains(describe_sweep(sweep, options_).text, "nothing is left to do");
}

// The checkpoints of an epoch are found by the length of the run.
TEST_F(SweepFeatureRuns, EpochsNeedRunsOfOneLength) {
  features();
  const std::string text = "base_sweep: s.yaml\nset: {train.early_stop.patience: 3}\n";
  const auto load_text = [&](const std::string& more) {
    load_sweep(write("early.yaml", text + more), {}, standard_registries().schemas());
  };
  expect_contains(error_of([&] { load_text(""); }),
                  "epochs: with train.early_stop.patience, a run may end before one of these");
  load_text("features: {evaluations: [{name: knn, task: knn}]}\n");
}

TEST_F(SweepFeatureRuns, ModelsMustHaveTheFeatures) {
  const auto error = [&](const std::string& keys) {
    const SweepConfig sweep =
        features("features: {evaluations: [{name: a, task: linear, " + keys + "}]}\n");
    return error_of([&] { check_features(sweep, standard_registries()); });
  };
  expect_contains(error("blocks: 3"),
                  "features: the evaluation 'a' of variant 'ln': the model has 2 blocks, fewer "
                  "than the 3 to combine");
  check_features(features(), standard_registries());
  check_features(features("features: {evaluations: [{name: a, task: linear, avgpool: true}]}\n"
                          "set: {model.class_token_at: 1}\n"),
                 standard_registries());
  const std::vector<std::string> pvt = {
      "model={preset: pvt_tiny, image_size: 32, num_classes: 10}"};
  const SweepConfig stages = load(kLinearAndKnn, {"model=null", pvt[0]});
  expect_contains(error_of([&] { check_features(stages, standard_registries()); }),
                  "'linear' of variant 'ln': this model gives its pooled vector only");
}

// The note of the table counts blocks by the config, dtn-eval by the features.
TEST_F(SweepFeatureRuns, NoteCountsBlocksAsDtnEvalDoes) {
  const SweepConfig sweep = features(
      "set: {model: {depth: 4, class_token_at: 3}}\n"
      "features: {evaluations: [{name: a, task: linear}, {name: b, task: linear, blocks: 1}]}\n");
  const FrozenFeatures all(sweep.variants[0].config, kMeta, standard_registries(),
                           choice_of(sweep.features.evaluations[0].how));
  expect_contains(all.description(), "; 3 of the blocks gave the mean of their patches");
  const std::vector<std::string> notes = feature_notes(report(sweep, plan_runs(sweep, out(), {})));
  expect_contains(notes[0], "; 3 of these blocks have no class token yet");
  EXPECT_EQ(notes[1].find("class token"), std::string::npos);
}

TEST_F(SweepFeatureRuns, ShippedSweepsHaveTheirFeatures) {
  const ConfigSchemas schemas = standard_registries().schemas();
  std::size_t evaluations = 0;
  for (const char* name : {"table7a", "table7_supcon", "fashion_mnist_table7a", "images32_table7a",
                           "fashion_mnist_table7_supcon"}) {
    const SweepConfig sweep = load_sweep(find_config(name, schemas), {}, schemas);
    evaluations += sweep.features.evaluations.size();
    check_features(sweep, standard_registries());
  }
  EXPECT_GE(evaluations, 14u);
}

// A classifier and a contrastive task share their figures by name.
TEST_F(SweepFeatureRuns, TasksMayDiffer) {
  features();
  const std::string text =
      "base_sweep: s.yaml\nfeatures: null\nmilestones: null\n"
      "variants:\n  - {name: dtn, label: contrast, set: {task: supcon, augment: supcon}}\n";
  const SweepConfig sweep =
      load_sweep(write("mixed.yaml", text), {}, standard_registries().schemas());
  EXPECT_EQ(sweep.metric.figure.name, "top1");
  EXPECT_EQ(sweep.metric.figure.title, "top1") << "the titles differ";
  const std::string table = to_markdown(report(sweep, plan_runs(sweep, out(), {})));
  expect_contains(table, "| variant   | top1 (%) |");
  expect_contains(
      table, "- Each task evaluates in its own way: `classify`: LayerNorm; `supcon`: contrast.\n");
  const SweepConfig alone = load_sweep(write("alone.yaml", text + "only: [dtn]\nbaseline: null\n"),
                                       {}, standard_registries().schemas());
  EXPECT_EQ(alone.metric.figure.title, "k-NN top-1");
  expect_contains(to_markdown(report(alone, plan_runs(alone, out(), {}))),
                  "- k-NN top-1 (%) of the last evaluation");
}

}  // namespace
}  // namespace dtn
