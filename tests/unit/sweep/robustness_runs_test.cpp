// Results of a sweep's runs on robustness suites: their inputs, and notes on results that are not
// comparable.
#include "apps/sweep/robustness_runs.h"

#include <nlohmann/json.hpp>

#include "apps/sweep/known_runs.h"
#include "apps/sweep/sweep_report.h"
#include "apps/sweep/sweep_size.h"
#include "texts.h"
#include "unit/sweep/sweep_folder.h"

namespace dtn {
namespace {
namespace fs = std::filesystem;
using test::expect_contains;

constexpr const char* kSuite = "imagenet-c";
constexpr const char* kReport =
    R"({"mce": 61.5, "corruptions": {"frost": {"error": 30, "ce": 34.6}}})";

class RobustnessRuns : public test::SweepFolder {
 protected:
  RobustnessRuns() {
    options_.device = "cpu";
    options_.suite_roots = {{kSuite, kOnTheFly}};
    evaluator_writes(kReport);
  }

  // The evaluator is a script in place of dtn-eval. It writes its arguments to the log, and a
  // report to the file after --save.
  void evaluator_writes(const std::string& report, int code = 0) {
    options_.evaluator = {
        "sh", write("evaluator.sh", cat("echo \"$@\"\nwhile [ \"$1\" != --save ]; do shift; done\n"
                                        "echo '",
                                        report, "' > \"$2\"\nexit ", code, "\n"))};
  }

  SweepConfig sweep_with_suite(const std::string& more = "") const {
    return load("evaluate: [imagenet-c]\n" + more);
  }
  // Returns the runs; those of `ln` are finished and have weights.
  std::vector<SweepRun> runs_of(const SweepConfig& sweep) const {
    std::vector<SweepRun> runs = plan_runs(sweep, out(), {});
    for (SweepRun* run : {&runs[0], &runs[1]}) {
      finish(*run, {50});
      fs::create_directories(run->folder / "checkpoints" / "last");
      update_state(*run);
    }
    return runs;
  }
  SweepStatus evaluate(const SweepConfig& sweep, const std::vector<SweepRun>& runs) const {
    return evaluate_on_suites(sweep, options_, runs);
  }
  SweepReport report(const SweepConfig& sweep, const std::vector<SweepRun>& runs,
                     const SuiteRoots& roots = {}) const {
    return {sweep, collect_results(sweep, runs, costs_of(sweep, standard_registries()), roots),
            "out", "dtn-sweep"};
  }

  SweepOptions options_;
};

TEST_F(RobustnessRuns, RememberTheirInputs) {
  SweepConfig sweep = sweep_with_suite();
  std::vector<SweepRun> runs = runs_of(sweep);
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  const auto saved = nlohmann::json::parse(read("out/ln/seed-0/imagenet-c.json"));
  EXPECT_EQ(saved["inputs"],
            (nlohmann::json{{"step", 5}, {"average", false}, {"source", "on-the-fly"}}));
  EXPECT_EQ(saved["mce"], 61.5);
  EXPECT_TRUE(robustness_result(sweep, runs[0], kSuite));

  runs[0].step = 10;  // the run was trained again, for longer
  EXPECT_FALSE(robustness_result(sweep, runs[0], kSuite));
  EXPECT_TRUE(robustness_result(sweep, runs[1], kSuite));
  sweep.ema = true;
  EXPECT_FALSE(robustness_result(sweep, runs[1], kSuite));
}

TEST_F(RobustnessRuns, ChangedInputsEvaluateAgain) {
  SweepConfig sweep = sweep_with_suite();
  std::vector<SweepRun> runs = runs_of(sweep);
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  runs[0].step = 10;
  evaluator_writes(R"({"mce": 50})");
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  EXPECT_EQ(robustness_result(sweep, runs[0], kSuite)->figure, 50);
  EXPECT_EQ(robustness_result(sweep, runs[1], kSuite)->figure, 61.5) << "it did not change";
  sweep.ema = true;
  evaluator_writes(R"({"mce": 40})");
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  EXPECT_EQ(robustness_result(sweep, runs[1], kSuite)->figure, 40);
}

TEST_F(RobustnessRuns, AnotherSourceEvaluatesAgain) {
  const SweepConfig sweep = sweep_with_suite();
  const std::vector<SweepRun> runs = runs_of(sweep);
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  const SuiteRoots folder = {{kSuite, "/data/imagenet-c"}}, moved = {{kSuite, "/mnt/c"}};
  EXPECT_FALSE(robustness_result(sweep, runs[0], kSuite, folder));
  EXPECT_TRUE(robustness_result(sweep, runs[0], kSuite, options_.suite_roots));
  EXPECT_TRUE(robustness_result(sweep, runs[0], kSuite)) << "no source was asked for";
  EXPECT_TRUE(report(sweep, runs, folder).results[0].suites.empty());

  options_.suite_roots = folder;
  evaluator_writes(R"({"mce": 50})", 1);
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFailed);
  EXPECT_EQ(robustness_result(sweep, runs[0], kSuite)->figure, 61.5)
      << "a failure leaves the result before it";
  evaluator_writes(R"({"mce": 50})");
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  EXPECT_EQ(robustness_result(sweep, runs[0], kSuite, folder)->figure, 50);
  EXPECT_TRUE(robustness_result(sweep, runs[0], kSuite, moved));
  EXPECT_EQ(read("out/ln/seed-0/imagenet-c.json").find("/data"), std::string::npos);
}

// dtn-eval continues from the file of an unfinished evaluation. A file of another source would mix
// the images of both.
TEST_F(RobustnessRuns, UnfinishedEvaluationsHaveTheirSource) {
  const SweepConfig sweep = sweep_with_suite();
  const std::vector<SweepRun> runs = runs_of(sweep);
  evaluator_writes(R"({"mce": null})");
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFailed);
  EXPECT_FALSE(robustness_result(sweep, runs[0], kSuite));
  const std::string partial = "out/ln/seed-0/imagenet-c-on-the-fly-5.partial.json";
  expect_contains(read("out/ln/seed-0/imagenet-c.log"), "--save " + (folder_ / partial).string());
  EXPECT_TRUE(fs::exists(folder_ / partial));

  options_.suite_roots[kSuite] = "/data/imagenet-c";
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFailed);
  EXPECT_TRUE(fs::exists(out() / "ln/seed-0/imagenet-c-folder-5.partial.json"));
  options_.suite_roots[kSuite] = kOnTheFly;
  evaluator_writes(kReport);
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  EXPECT_FALSE(fs::exists(folder_ / partial));
}

TEST_F(RobustnessRuns, ResultsOfEarlierVersionsCount) {
  const SweepConfig sweep = sweep_with_suite();
  std::vector<SweepRun> runs = runs_of(sweep);
  for (const std::size_t i : {0u, 1u}) std::ofstream(suite_file(runs[i], kSuite)) << kReport;
  options_.evaluator = {"false"};
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  EXPECT_TRUE(robustness_result(sweep, runs[0], kSuite, options_.suite_roots));
  EXPECT_EQ(report(sweep, runs).results[0].suites.at(kSuite).n, 2u);
  EXPECT_TRUE(suite_notes(report(sweep, runs)).empty());
  keep_result(sweep, runs[0], folder_ / "kept");
  EXPECT_EQ(read("kept/ln/seed-0/imagenet-c.json"), kReport);
}

TEST_F(RobustnessRuns, KeptResultsOfOtherInputsAreLeftOut) {
  const SweepConfig sweep = sweep_with_suite();
  const std::vector<SweepRun> runs = runs_of(sweep);
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  for (const SweepRun* run : {&runs[0], &runs[1]}) keep_result(sweep, *run, folder_ / "kept");
  auto others = plan_runs(sweep, folder_ / "other", {});
  adopt_kept_results(others, folder_ / "kept", standard_registries().schemas());
  EXPECT_EQ(report(sweep, others).results[0].suites.at(kSuite).n, 2u);
  options_.suite_roots[kSuite] = "/data/imagenet-c";
  EXPECT_TRUE(report(sweep, others, options_.suite_roots).results[0].suites.empty());
  testing::internal::CaptureStderr();
  EXPECT_EQ(evaluate(sweep, others), SweepStatus::kFinished);
  const std::string log = testing::internal::GetCapturedStderr();
  expect_contains(log, "ln:0: the tables leave out its result on imagenet-c");
  expect_contains(log, R"("source":"on-the-fly")");
}

TEST_F(RobustnessRuns, NewResultReplacesTheKeptOne) {
  const SweepConfig sweep = sweep_with_suite();
  const std::vector<SweepRun> runs = runs_of(sweep);
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  keep_result(sweep, runs[0], folder_ / "kept");
  options_.suite_roots[kSuite] = "/data/imagenet-c";
  // The old result is not of the source that was asked for. The archive does not change yet.
  write("kept/ln/seed-0/imagenet-c.json", kReport);
  keep_result(sweep, runs[0], folder_ / "kept", options_.suite_roots);
  EXPECT_EQ(read("kept/ln/seed-0/imagenet-c.json"), kReport);
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  testing::internal::CaptureStderr();
  keep_result(sweep, runs[0], folder_ / "kept", options_.suite_roots);
  keep_result(sweep, runs[0], folder_ / "kept", options_.suite_roots);
  const std::string log = testing::internal::GetCapturedStderr();
  expect_contains(log, "ln:0: replacing the kept result ");
  EXPECT_EQ(log.find("replacing"), log.rfind("replacing")) << "once";
  expect_contains(read("kept/ln/seed-0/imagenet-c.json"), R"("source": "folder")");
}

TEST_F(RobustnessRuns, NoteNamesDifferentSources) {
  const SweepConfig sweep = sweep_with_suite();
  const std::vector<SweepRun> runs = runs_of(sweep);
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  EXPECT_TRUE(suite_notes(report(sweep, runs)).empty());
  std::ofstream(suite_file(runs[1], kSuite))
      << R"({"mce": 50, "inputs": {"step": 5, "average": false, "source": "folder"}})";
  const SweepReport mixed = report(sweep, runs);
  const std::string note =
      "The results on imagenet-c come from different images and are not comparable (on-the-fly: "
      "ln:0; folder: ln:1).";
  EXPECT_EQ(suite_notes(mixed), std::vector<std::string>{note});
  expect_contains(to_markdown(mixed), "\n- " + note + "\n");
}

// The fingerprints tell two folders apart, also in results of earlier versions.
TEST_F(RobustnessRuns, NoteComparesImages) {
  const SweepConfig sweep = sweep_with_suite();
  const std::vector<SweepRun> runs = runs_of(sweep);
  const auto evaluated = [&](std::size_t i, const char* images, const char* inputs) {
    std::ofstream(suite_file(runs[i], kSuite))
        << R"({"mce": 50, "corruptions": {"snow": {"error": 30, "severities": {"1": {"images": ")"
        << images << R"("}, "2": null}}})" << inputs << "}";
  };
  const char* of_folder = R"(, "inputs": {"step": 5, "average": false, "source": "folder"})";
  evaluated(0, "a3b4", of_folder);
  evaluated(1, "a3b4", "");
  EXPECT_EQ(robustness_result(sweep, runs[0], kSuite)->images.at("snow/1"), "a3b4");
  EXPECT_TRUE(suite_notes(report(sweep, runs)).empty()) << "the images are the same";
  evaluated(1, "7d16", of_folder);
  EXPECT_EQ(suite_notes(report(sweep, runs)).size(), 1u);
  evaluated(1, "7d16", "");
  expect_contains(suite_notes(report(sweep, runs)).at(0), "(folder: ln:0; unknown source: ln:1)");
}

TEST_F(RobustnessRuns, GeneratedFrostIsNoted) {
  const SweepConfig sweep = sweep_with_suite();
  const std::vector<SweepRun> runs = runs_of(sweep);
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  EXPECT_EQ(to_markdown(report(sweep, runs)).find("stand-in"), std::string::npos);
  for (const std::size_t i : {0u, 1u}) fs::remove(suite_file(runs[i], kSuite));
  evaluator_writes(
      R"json({"mce": 61.5, "frost": "frost (stand-in)", "without_frost": {"mean_ce": 60},)json"
      R"json( "corruptions": {"snow": {"error": 20, "ce": 40}, )json"
      R"json("frost": {"error": 30, "ce": 34.6}}})json");
  EXPECT_EQ(evaluate(sweep, runs), SweepStatus::kFinished);
  const SweepReport all = report(sweep, runs);
  const std::string note =
      "frost (stand-in): the pictures of frost are generated, so this mCE is not comparable with "
      "published ones, such as the paper's.";
  EXPECT_EQ(suite_notes(all), std::vector<std::string>{note});
  const std::string text = to_markdown(all);
  expect_contains(text, "\n- " + note + "\n- `dtn`, seed 4: not finished.\n");
  expect_contains(text, "\n| frost (stand-in) | 30.00 ± 0.00 |\n");
  expect_contains(text.substr(text.find(kCeTitle)), "\n- " + note + "\n");
  EXPECT_EQ(ce_table(all).rows[8][0], "frost (stand-in)");
  EXPECT_EQ(ce_table(all).rows[7][0], "snow");
  const auto json = nlohmann::json::parse(to_json(all))["variants"][0]["suites"][kSuite];
  EXPECT_EQ(json["frost"], "frost (stand-in)");
  EXPECT_EQ(json["errors"]["frost"]["mean"], 30);

  std::ofstream(suite_file(runs[1], kSuite)) << kReport;
  expect_contains(suite_notes(report(sweep, runs)).at(0), "frost (stand-in) of ln:0: ");
}

}  // namespace
}  // namespace dtn
