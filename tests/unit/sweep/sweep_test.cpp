// Statistics, tables and plans of sweeps. tests/e2e/sweep.sh runs whole sweeps.
#include "apps/sweep/sweep.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "apps/estimate/run_size.h"
#include "apps/sweep/known_runs.h"
#include "apps/sweep/robustness_runs.h"
#include "apps/sweep/sweep_report.h"
#include "apps/sweep/sweep_size.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/tasks/registries.h"
#include "io/atomic_file.h"
#include "io/child_process.h"
#include "texts.h"
#include "unit/sweep/sweep_folder.h"

namespace dtn {
namespace {
namespace fs = std::filesystem;
using test::error_of;
using test::expect_contains;

class Sweeps : public test::SweepFolder {};

TEST(SampleStatistics, MeanAndDeviationOfSample) {
  EXPECT_FALSE(statistics_of({}));
  const std::vector<double> one = {3}, four = {2, 4, 4, 6};
  EXPECT_EQ(statistics_of(one)->mean, 3);
  EXPECT_FALSE(statistics_of(one)->std);
  const Statistics s = *statistics_of(four);
  EXPECT_EQ(s.n, 4u);
  EXPECT_EQ(s.mean, 4);
  EXPECT_EQ(s.min, 2);
  EXPECT_EQ(s.max, 6);
  EXPECT_DOUBLE_EQ(*s.std, std::sqrt(8.0 / 3));
  const std::vector<double> far = {1e9 + 1, 1e9 + 2, 1e9 + 3};
  EXPECT_DOUBLE_EQ(*statistics_of(far)->std, 1);
}

TEST(EpochsTo, InterpolatesFirstCrossing) {
  const std::vector<CurvePoint> curve = {{1, 0, 40}, {2, 0, 60}, {4, 0, 50}, {5, 0, 90}};
  const auto epochs = [&](double milestone) { return epochs_to(milestone, true, curve); };
  EXPECT_EQ(epochs(50), 1.5);
  EXPECT_EQ(epochs(60), 2);
  EXPECT_EQ(epochs(70), 4.5);
  EXPECT_EQ(epochs(30), 1);  // reached before the first evaluation
  EXPECT_EQ(epochs(90), 5);
  EXPECT_FALSE(epochs(90.1));
  EXPECT_FALSE(epochs_to(1, true, {}));
  const double nan = std::nan("");
  EXPECT_FALSE(epochs_to(1, true, std::vector<CurvePoint>{{1, 0, nan}}));
  EXPECT_EQ(epochs_to(1, true, std::vector<CurvePoint>{{1, 0, nan}, {2, 0, 5}}), 2);
  // A loss reaches its milestone by decreasing.
  const std::vector<CurvePoint> loss = {{1, 0, 4}, {2, 0, 2}, {3, 0, 3}};
  EXPECT_EQ(epochs_to(3, false, loss), 1.5);
  EXPECT_FALSE(epochs_to(1, false, loss));
}

TEST_F(Sweeps, PlanAndStates) {
  const SweepConfig sweep = load();
  auto runs = plan_runs(sweep, out(), {});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].id, "ln:0");
  EXPECT_EQ(runs[2].id, "dtn:4");
  EXPECT_EQ(runs[2].folder, out() / "dtn" / "seed-4");
  EXPECT_EQ(runs[1].config.seed, 1u);
  EXPECT_EQ(runs[2].config.model.norm.type, "dtn");
  for (const SweepRun& run : runs) EXPECT_EQ(run.state, RunState::kToDo);

  finish(runs[0], {30, 40, 50});
  fs::create_directories(runs[1].folder / "checkpoints");
  fs::create_symlink("step-00000010", runs[1].folder / "checkpoints" / "last");
  fs::create_directories(runs[2].folder);
  write_failure(runs[2], {4, "it diverged"});
  runs = plan_runs(sweep, out(), {});
  EXPECT_EQ(runs[0].state, RunState::kFinished);
  EXPECT_EQ(runs[0].step, 15);
  EXPECT_EQ(runs[1].state, RunState::kStarted);
  EXPECT_EQ(runs[1].step, 10);
  EXPECT_EQ(runs[2].state, RunState::kFailed);
  EXPECT_EQ(runs[2].failure->code, 4);
  EXPECT_EQ(runs[2].failure->error, "it diverged");
  clear_failure(runs[2]);
  update_state(runs[2]);
  EXPECT_EQ(runs[2].state, RunState::kToDo);
  // A diverged run continues from its last checkpoint, even if it has a summary.
  write("out/ln/seed-1/summary.json", "{\"diverged\": true, \"steps\": 14}");
  update_state(runs[1]);
  EXPECT_EQ(runs[1].state, RunState::kStarted);
  EXPECT_EQ(runs[1].step, 10);
  write("out/ln/seed-1/summary.json", "{\"diverged\": false, \"steps\": 15}");
  update_state(runs[1]);
  EXPECT_EQ(runs[1].state, RunState::kFinished);
  // A truncated summary counts as absent, but a truncated failure record counts.
  write("out/ln/seed-0/summary.json", "{\"top1\": 3");
  write("out/dtn/seed-4/failure.json", "{\"code\": \"x\"}");
  runs = plan_runs(sweep, out(), {});
  EXPECT_EQ(runs[0].state, RunState::kToDo);
  EXPECT_EQ(runs[2].state, RunState::kFailed);
}

TEST_F(Sweeps, Selection) {
  const SweepConfig sweep = load();
  const auto selected = [&](const std::vector<std::string>& only) {
    std::string ids;
    for (const SweepRun& run : plan_runs(sweep, out(), only)) {
      if (run.selected) ids += run.id + " ";
    }
    return ids;
  };
  EXPECT_EQ(selected({}), "ln:0 ln:1 dtn:4 ");
  EXPECT_EQ(selected({"ln"}), "ln:0 ln:1 ");
  EXPECT_EQ(selected({"dtn", "ln:1", "ln:1"}), "ln:1 dtn:4 ");
  for (const char* wrong : {"bn", "ln:4", "ln:", ":0", ""}) {
    expect_contains(error_of([&] { selected({wrong}); }), "ln, dtn, ln:0, ln:1, dtn:4");
  }
}

TEST_F(Sweeps, RejectsFoldersOfOtherSweeps) {
  const SweepConfig sweep = load();
  const ConfigSchemas schemas = standard_registries().schemas();
  auto runs = plan_runs(sweep, out(), {});
  check_folders(runs, out(), schemas);  // absent
  fs::create_directories(out());
  check_folders(runs, out(), schemas);  // empty
  write("out/thesis.txt", "precious");
  expect_contains(error_of([&] { check_folders(runs, out(), schemas); }),
                  "contains files but no sweep");
  write("out/sweep.lock", "");
  check_folders(runs, out(), schemas);
  expect_contains(error_of([&] { check_folders(runs, folder_ / "base.yaml", schemas); }),
                  "is a file");

  finish(runs[0], {50});
  const auto check = [&](const SweepConfig& s) {
    check_folders(plan_runs(s, out(), {}), out(), schemas);
  };
  check(sweep);
  check(load("", {"data.workers=7"}));  // changes no result
  check(load("", {"train.log_norms=1epoch"}));
  const std::string message = error_of([&] {
    check(load("", {"optim.lr=0.5", "schedule.epochs=7"}));
  });
  expect_contains(message,
                  "ln:0 was run with another config: optim.lr is 0.5, was 5.0e-04; "
                  "schedule.epochs is 7, was 6; delete ");
  expect_contains(message, "--output");
  write("out/ln/seed-0/config.yaml", "model: {preset: vit_x}\n");
  expect_contains(error_of([&] { check(sweep); }), "ln:0: cannot read its config");
}

TEST_F(Sweeps, AdoptsKeptResults) {
  const SweepConfig sweep = load("", {"data.root=/home/me/images"});
  const ConfigSchemas schemas = standard_registries().schemas();
  const fs::path kept = folder_ / "kept";
  auto runs = plan_runs(sweep, out(), {});
  finish(runs[1], {30, 60});
  update_state(runs[1]);
  keep_result(sweep, runs[1], kept);
  const std::string config = read("kept/ln/seed-1/config.yaml");
  EXPECT_EQ(config.find("/home/me"), std::string::npos) << config;
  const std::string metrics = read("kept/ln/seed-1/metrics.jsonl");
  EXPECT_EQ(std::ranges::count(metrics, '\n'), 2) << metrics;

  // In another folder, with the data in another place.
  const SweepConfig moved = load("", {"data.root=/mnt/images"});
  auto others = plan_runs(moved, folder_ / "other", {});
  adopt_kept_results(others, {}, schemas);
  EXPECT_EQ(others[1].state, RunState::kToDo);
  adopt_kept_results(others, kept, schemas);
  EXPECT_EQ(others[0].state, RunState::kToDo);
  EXPECT_EQ(others[1].state, RunState::kFinished);
  EXPECT_EQ(others[1].step, 10);
  const auto results = collect_results(moved, others, costs_of(moved, standard_registries()));
  ASSERT_EQ(results[0].runs.size(), 1u);
  EXPECT_EQ(results[0].runs[0].value, 60);
  EXPECT_EQ(results[0].runs[0].curve.size(), 2u);
  EXPECT_EQ(results[0].runs[0].images_per_second, 123.4);
  // An existing result stays unchanged.
  keep_result(moved, others[1], kept);
  EXPECT_EQ(read("kept/ln/seed-1/metrics.jsonl"), metrics);

  const SweepConfig changed = load("", {"optim.lr=0.5"});
  auto wrong = plan_runs(changed, folder_ / "other", {});
  expect_contains(error_of([&] { adopt_kept_results(wrong, kept, schemas); }),
                  "ln:1 was run with another config: optim.lr is 0.5");
}

TEST_F(Sweeps, ComparesSplitsByFileName) {
  ExperimentConfig here = load().variants[0].config, there = here;
  here.data.val = "/home/me/trees/basic_test.tsv";
  there.data.val = "basic_test.tsv";
  EXPECT_EQ(to_yaml(comparable(here)), to_yaml(comparable(there)));
  there.data.val = "more/basic_test.tsv";  // below data.root
  EXPECT_NE(to_yaml(comparable(here)), to_yaml(comparable(there)));

  const SweepConfig sweep = load();
  SweepRun run = plan_runs(sweep, out(), {})[0];
  finish(run, {30});
  run.config = here;
  keep_result(sweep, run, folder_ / "kept");
  const std::string kept = read("kept/ln/seed-0/config.yaml");
  expect_contains(kept, "  val: basic_test.tsv");
}

TEST_F(Sweeps, PairsRunsBySeed) {
  SweepConfig sweep = load();
  sweep.variants[1].seeds = {0, 1, 7};
  auto runs = plan_runs(sweep, out(), {});
  finish(runs[0], {50});
  finish(runs[1], {52});
  finish(runs[2], {51});
  finish(runs[3], {55});
  finish(runs[4], {90});
  for (SweepRun& run : runs) update_state(run);
  const SweepReport report{
      sweep, collect_results(sweep, runs, costs_of(sweep, standard_registries())), "out", "c"};
  EXPECT_FALSE(report.results[0].paired);
  const auto paired = report.results[1].paired;
  ASSERT_TRUE(paired);
  EXPECT_EQ(paired->n, 2u);
  EXPECT_EQ(paired->mean, 2);
  EXPECT_EQ(report.results[1].to_baseline, 2);  // without the third seed
  EXPECT_NEAR(paired->high, 2 + 12.7062, 1e-4);
  const std::string text = to_markdown(report);
  expect_contains(text, "| [-10.71, +14.71] | 0.295 |");
  expect_contains(text, "paired t-test");
  expect_contains(to_json(report), "\"paired\"");
}

// The evaluator is a script in place of dtn-eval. It logs its arguments and writes a report.
TEST_F(Sweeps, EvaluatesFinishedRunsOnSuites) {
  SweepConfig sweep = load();
  sweep.suites = {"imagenet-c", "imagenet-r"};
  auto runs = plan_runs(sweep, out(), {});
  for (const SweepRun* run : {&runs[0], &runs[1]}) finish(*run, {50});
  fs::create_directories(runs[0].folder / "checkpoints" / "last");
  for (SweepRun& run : runs) update_state(run);
  SweepOptions options;
  options.device = "cpu";
  options.evaluator = {"sh", write("evaluator.sh",
                                   "echo \"$@\"\nwhile [ \"$1\" != --save ]; do shift; done\n"
                                   "echo '{\"mce\": 61.5, \"top1\": 20, \"corruptions\": "
                                   "{\"snow\": {\"error\": 30, \"ce\": 34.6}}}' > \"$2\"\n")};
  options.suite_roots = {{"imagenet-c", kOnTheFly}};
  EXPECT_EQ(evaluate_on_suites(sweep, options, runs), SweepStatus::kFinished);
  ASSERT_TRUE(robustness_result(sweep, runs[0], "imagenet-c"));
  EXPECT_EQ(robustness_result(sweep, runs[0], "imagenet-c")->figure, 61.5);
  const auto corruptions = robustness_result(sweep, runs[0], "imagenet-c")->corruptions;
  ASSERT_EQ(corruptions.size(), 1u);
  EXPECT_EQ(corruptions[0].name, "snow");
  EXPECT_EQ(corruptions[0].error, 30);
  EXPECT_EQ(corruptions[0].ce, 34.6);
  EXPECT_FALSE(robustness_result(sweep, runs[0], "imagenet-r")) << "its folder is not known";
  EXPECT_FALSE(robustness_result(sweep, runs[1], "imagenet-c")) << "it has no checkpoint";
  const std::string log = read("out/ln/seed-0/imagenet-c.log");
  expect_contains(log, "out/ln/seed-0/checkpoints/last --suite imagenet-c");
  expect_contains(log, "--corrupt-on-the-fly");
  // Existing results are not evaluated again.
  options.evaluator = {"false"};
  EXPECT_EQ(evaluate_on_suites(sweep, options, runs), SweepStatus::kFinished);
  options.suite_roots["imagenet-r"] = "/data/r";
  EXPECT_EQ(evaluate_on_suites(sweep, options, runs), SweepStatus::kFailed);

  const auto results = collect_results(sweep, runs, costs_of(sweep, standard_registries()));
  EXPECT_EQ(results[0].suites.at("imagenet-c").mean, 61.5);
  const SweepReport report{sweep, results, "out", "c"};
  expect_contains(to_markdown(report), "|       mCE (%) |");
  expect_contains(to_markdown(report), "| 61.5 (1 of 2) |");
}

// Images smaller than ImageNet-C's have no mCE. The report has their mean error, and a table of
// corruptions against the baseline, by seed.
TEST_F(Sweeps, CorruptionsOfSmallImages) {
  SweepConfig sweep = load();
  sweep.suites = {"imagenet-c"};
  sweep.variants[1].seeds = {0, 1};
  auto runs = plan_runs(sweep, out(), {});
  for (SweepRun& run : runs) {
    finish(run, {50});
    update_state(run);
  }
  const auto evaluated = [&](std::size_t i, bool complete, const char* noise, const char* jpeg) {
    std::ofstream(suite_file(runs[i], "imagenet-c"))
        << "{\"mce\": null, \"no_mce\": \"small\", \"complete\": " << (complete ? "true" : "false")
        << ", \"mean_error\": 70, \"corruptions\": {\"noise\": {\"error\": " << noise
        << "}}, \"extra\": {\"jpeg\": {\"error\": " << jpeg << "}}, \"clean\": {\"error\": 40}}";
  };
  evaluated(0, true, "80", "60");
  evaluated(1, true, "90", "50");
  evaluated(2, true, "60", "60");
  evaluated(3, false, "45", "null");
  EXPECT_FALSE(robustness_result(sweep, runs[3], "imagenet-c")) << "it has not come to its end";
  const SweepReport report{
      sweep, collect_results(sweep, runs, costs_of(sweep, standard_registries())), "out", "c"};
  const auto rows = corruption_rows(report.results, sweep.baseline);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].name, "clean");
  EXPECT_EQ(rows[1].name, "noise");
  EXPECT_EQ(rows[1].cells[0].error->mean, 85);
  EXPECT_FALSE(rows[1].cells[0].to_baseline);
  EXPECT_EQ(rows[1].cells[1].error->n, 1u);
  EXPECT_EQ(rows[1].cells[1].to_baseline, 75) << "60 of 80: of the run from the same seed";
  EXPECT_EQ(rows[3].name, "mean");
  EXPECT_EQ(rows[3].cells[0].error->mean, report.results[0].suites.at("imagenet-c").mean);
  EXPECT_EQ(rows[3].cells[1].to_baseline, 87.5) << "the mean of 75 and 100";
  const std::string text = to_markdown(report);
  expect_contains(text, "| error, corrupted (%) |");
  expect_contains(text, "| noise      | 85.00 ± 7.07 |");
  EXPECT_EQ(text.find("mCE"), std::string::npos);
  expect_contains(to_json(report), "\"to_baseline\": 87.5");
}

TEST_F(Sweeps, Results) {
  const SweepConfig sweep = load();
  auto runs = plan_runs(sweep, out(), {});
  finish(runs[0], {30, 60, 70});
  finish(runs[1], {40, 60, 72});
  finish(runs[2], {50, 80, 75});
  runs = plan_runs(sweep, out(), {});
  auto results = collect_results(sweep, runs, costs_of(sweep, standard_registries()));
  EXPECT_EQ(results[0].metric->mean, 71);
  EXPECT_DOUBLE_EQ(*results[0].metric->std, std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(*results[0].difference, 71 - 80.6);
  EXPECT_FALSE(results[0].to_baseline);
  EXPECT_EQ(results[1].metric->mean, 75);
  EXPECT_FALSE(results[1].metric->std);
  EXPECT_EQ(results[1].to_baseline, 4);
  EXPECT_DOUBLE_EQ(*results[1].paper_to_baseline, 81.7 - 80.6);
  EXPECT_DOUBLE_EQ(*results[0].milestones[0].epochs, (5.0 / 3 + 1.5) / 2);
  EXPECT_EQ(results[0].milestones[0].reached, 2u);
  EXPECT_FALSE(results[0].milestones[1].epochs);
  EXPECT_EQ(results[1].milestones[1].epochs, 2);
  EXPECT_EQ(results[0].images_per_second, 123.4);

  // The paper's top-5 asks for ours.
  const SweepConfig more = load("  - {name: late, paper: {top5: 95.5}}\n");
  const auto figures = collect_results(more, runs, costs_of(more, standard_registries()));
  ASSERT_EQ(figures[0].figures.size(), 1u);
  EXPECT_EQ(figures[0].figures[0]->mean, 99);
  EXPECT_EQ(figures[0].figures[0]->n, 2u);
  EXPECT_FALSE(figures[2].figures[0]);

  const auto value = [&](const std::string& metric) {
    const SweepConfig other = load("metric: " + metric + "\n");
    return collect_results(other, runs, costs_of(other, standard_registries()))[1].metric->mean;
  };
  EXPECT_EQ(value("loss"), 1.25);
  EXPECT_EQ(value("top5"), 99);
  EXPECT_EQ(value("best_top1"), 80);
  EXPECT_EQ(value("best_loss"), 1.2);
  std::ofstream(runs[2].folder / "metrics.jsonl", std::ios::app)
      << "\n{\"step\":30,\"epoch\":6,\"split\":\"val\",\"top1\":null,\"loss\":null}\n";
  EXPECT_EQ(value("best_top1"), 80) << "a NaN is never the best";
  EXPECT_EQ(value("best_loss"), 1.2);

  fs::remove(runs[2].folder / "metrics.jsonl");
  expect_contains(
      error_of([&] { collect_results(sweep, runs, costs_of(sweep, standard_registries())); }),
      "has no evaluation");
}

TEST_F(Sweeps, OpensSameDataOnceForSizes) {
  const SweepConfig sweep = load();
  SizeCache sizes(kCpu, standard_registries());
  const RunSize size = sizes.of(sweep.variants[0].config).size;
  EXPECT_EQ(size.steps_per_epoch, 5);
  EXPECT_EQ(size.steps, 30);
  EXPECT_EQ(sizes.of(load("", {"schedule.epochs=7"}).variants[0].config).size.steps, 35);
  ExperimentConfig of_sequences = sweep.variants[0].config;
  of_sequences.model.vocabulary = 17;
  of_sequences.model.max_length = 77;
  expect_contains(error_of([&] { sizes.of(of_sequences); }), "sequences of up to 77 tokens");
  ExperimentConfig big = sweep.variants[0].config;
  big.train.batch_size = 81;
  expect_contains(error_of([&] { sizes.of(big); }), "fewer than one batch of 81");
  EXPECT_EQ(logged_step(folder_), 0);
  std::string log(5000, 'x');
  log += "\n{\"step\":12}\n{\"step\":13,\"loss\":2}\n{\"st";
  write("metrics.jsonl", log);
  EXPECT_EQ(logged_step(folder_), 13);
}

TEST_F(Sweeps, DescriptionDoesNotChangeFolder) {
  const SweepConfig sweep = load();
  SweepOptions options;
  options.output = out();
  options.device = "cpu";
  options.jobs = 2;
  std::string text = describe_sweep(sweep, options).text;
  EXPECT_FALSE(fs::exists(out()));
  expect_contains(text, "ln:0          30");
  expect_contains(text, "3 runs left, about ");
  expect_contains(text, "with --jobs 2 and --threads 1");
  fs::create_directories(out());
  write("out/sweep.lock", "");
  const auto runs = plan_runs(sweep, out(), {});
  for (const SweepRun& run : runs) finish(run, {50, 60});
  text = describe_sweep(sweep, options).text;
  expect_contains(text, "nothing is left to do");
  // 10 steps of 16 images at 123.4 images/s take less than the measured 2 s.
  expect_contains(text, "2.0 s  finished");
}

}  // namespace
}  // namespace dtn
