// Columns of further values in the tables of sweeps: what is read, kept and shown.
#include <algorithm>
#include <cmath>
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

constexpr const char* kThreeColumns =
    "columns:\n"
    "  - {name: top1_article, label: \"top-1, article (%)\"}\n"
    "  - top5\n"
    "  - {name: share}\n";

class SweepColumns : public test::SweepFolder {
 protected:
  // Adds an evaluation to a run's metrics.jsonl; `values` are members of its JSON object.
  static void log(const SweepRun& run, const std::string& values,
                  const std::string& split = "val") {
    std::ofstream(run.folder / "metrics.jsonl", std::ios::app)
        << "\n{\"step\":15,\"epoch\":3,\"split\":\"" << split << "\"," << values << "}\n";
  }
  // Returns the runs, all finished. Only those of `ln` have logged top1_article, and only in their
  // last evaluation. None has a number for `share`.
  std::vector<SweepRun> runs_of(const SweepConfig& sweep) const {
    std::vector<SweepRun> runs = plan_runs(sweep, out(), {});
    for (SweepRun& run : runs) {
      finish(run, {50, 60});
      update_state(run);
    }
    log(runs[0], R"("top1":55,"loss":1,"top1_article":40.5,"top5":1234.5,"share":null)");
    log(runs[1], R"("top1":57,"loss":1,"top1_article":41.5,"top5":1235.5,"share":"high")");
    return runs;
  }
  static std::vector<VariantResult> results_of(const SweepConfig& sweep,
                                               const std::vector<SweepRun>& runs) {
    return collect_results(sweep, runs, costs_of(sweep, standard_registries()));
  }
  static SweepReport report(const SweepConfig& sweep, const std::vector<SweepRun>& runs) {
    return {sweep, results_of(sweep, runs), "out", "dtn-sweep"};
  }
};

TEST_F(SweepColumns, AreOfTheLastEvaluation) {
  for (const char* metric : {"top1", "best_top1"}) {
    SCOPED_TRACE(metric);
    const SweepConfig sweep = load(cat(kThreeColumns, "metric: ", metric, "\n"));
    const std::vector<VariantResult> results = results_of(sweep, runs_of(sweep));
    EXPECT_EQ(results[0].metric->mean, sweep.metric.best_of_all ? 60 : 56);
    ASSERT_EQ(results[0].columns.size(), 3u);
    EXPECT_EQ(results[0].columns[0]->n, 2u);
    EXPECT_EQ(results[0].columns[0]->mean, 41);
    EXPECT_DOUBLE_EQ(*results[0].columns[0]->std, std::sqrt(0.5));
    EXPECT_EQ(results[0].columns[1]->mean, 1235);
    EXPECT_FALSE(results[0].columns[2]) << "null and text are not numbers";
    EXPECT_FALSE(results[1].columns[0]) << "not logged";
    EXPECT_EQ(results[1].columns[1]->mean, 99);
    EXPECT_FALSE(results[1].columns[1]->std) << "one seed";
  }
}

TEST_F(SweepColumns, RunsWithoutTheValueDoNotCount) {
  const SweepConfig sweep = load(kThreeColumns);
  const std::vector<SweepRun> runs = runs_of(sweep);
  log(runs[1], R"("top1":58,"loss":1,"top1_article":null)");
  const VariantResult ln = results_of(sweep, runs)[0];
  EXPECT_EQ(ln.metric->n, 2u);
  for (const std::size_t column : {0, 1}) {
    ASSERT_TRUE(ln.columns[column]);
    EXPECT_EQ(ln.columns[column]->n, 1u) << "the last evaluation alone counts";
    EXPECT_FALSE(ln.columns[column]->std);
  }
  EXPECT_EQ(ln.columns[0]->mean, 40.5);
}

TEST_F(SweepColumns, AreOfTheAveragedWeights) {
  const SweepConfig sweep = load("columns: [top1_article]\nweights: ema\nset: {train.ema: 0.9}\n");
  const std::vector<SweepRun> runs = runs_of(sweep);
  for (const SweepRun& run : runs) {
    log(run, R"("top1":70,"loss":1,"top1_article":20)", "val_ema");
    log(run, R"("top1":80,"loss":1,"top1_article":30)");
  }
  const SweepReport all = report(sweep, runs);
  EXPECT_EQ(all.results[0].columns[0]->mean, 20);
  expect_contains(to_markdown(all),
                  "- top1_article: of the last evaluation of the averaged weights, mean ± sample "
                  "standard deviation over the seeds.\n");
}

TEST_F(SweepColumns, StandBeforeTheSizes) {
  const SweepConfig sweep = load(kThreeColumns);
  const SweepReport all = report(sweep, runs_of(sweep));
  const TableText table = table_text(all);
  EXPECT_EQ(table.columns,
            (std::vector<std::string>{"variant", "top-1 (%)", "paper", "difference", "to LayerNorm",
                                      "to LayerNorm in the paper", "epochs to 50 %",
                                      "epochs to 80 %", "top-1, article (%)", "top5", "share",
                                      "parameters", "images/s", "seeds"}));
  const auto cells = [&](std::size_t row) {
    return std::vector<std::string>(table.rows[row].begin() + 8, table.rows[row].begin() + 11);
  };
  EXPECT_EQ(cells(0), (std::vector<std::string>{"41.00 ± 0.71", "1235 ± 1", "-"}));
  EXPECT_EQ(cells(1), (std::vector<std::string>{"-", "99.00", "-"}));
  expect_contains(to_markdown(all),
                  "- top-1, article (%); top5; share: of the last evaluation, mean ± sample "
                  "standard deviation over the seeds; -: no run logged it.\n");
}

TEST_F(SweepColumns, FollowTheFiguresOfThePaper) {
  const SweepConfig sweep = load(
      "  - {name: late, paper: {top5: 95.5}, paper_suites: {imagenet-r: 30}}\n"
      "columns: [{name: top5, label: ours}]\nevaluate: [imagenet-r]\n");
  const SweepReport all = report(sweep, runs_of(sweep));
  const std::vector<std::string> columns = table_text(all).columns;
  const auto ours = std::ranges::find(columns, "ours");
  ASSERT_NE(ours, columns.end());
  EXPECT_EQ(*(ours - 1), "top-5 in % (paper)");
  EXPECT_EQ(*(ours + 1), suite_title("imagenet-r", false));
  expect_contains(to_csv(all), ",top5,paper_top5,top5_mean,top5_std\n");
}

TEST_F(SweepColumns, HaveFourDigits) {
  const SweepConfig sweep = load("columns: [share]\n");
  SweepReport all = report(sweep, plan_runs(sweep, out(), {}));
  EXPECT_FALSE(all.results[0].columns.at(0)) << "no run is finished";
  const auto cell = [&](double mean, std::optional<double> std = {}) {
    all.results[0].columns[0] = Statistics{2, mean, mean, mean, std};
    return table_text(all).rows[0][8];
  };
  EXPECT_EQ(cell(0), "0.000");
  EXPECT_EQ(cell(-2.5), "-2.500");
  EXPECT_EQ(cell(0.000123456), "0.0001235");
  EXPECT_EQ(cell(55.408, 0.31264), "55.41 ± 0.31");
  EXPECT_EQ(cell(1234.6, 1000), "1235 ± 1000");
  EXPECT_EQ(cell(123456), "1.235e+05");
}

TEST_F(SweepColumns, DataHasEverySeed) {
  const SweepConfig sweep = load(kThreeColumns);
  const SweepReport all = report(sweep, runs_of(sweep));
  const auto json = nlohmann::json::parse(to_json(all));
  EXPECT_EQ(json["columns"][0],
            (nlohmann::json{{"name", "top1_article"}, {"label", "top-1, article (%)"}}));
  EXPECT_EQ(json["columns"].size(), 3u);
  const auto &ln = json["variants"][0]["columns"], &dtn = json["variants"][1]["columns"];
  EXPECT_EQ(ln["top1_article"]["n"], 2);
  EXPECT_EQ(ln["top1_article"]["mean"], 41);
  EXPECT_EQ(ln["top1_article"]["std"], std::sqrt(0.5));
  EXPECT_EQ(ln["top1_article"]["values"].dump(),
            R"([{"seed":0,"value":40.5},{"seed":1,"value":41.5}])");
  EXPECT_EQ(ln["share"].dump(), R"({"mean":null,"n":0,"std":null,"values":[]})");
  EXPECT_EQ(dtn["top5"].dump(),
            R"({"mean":99.0,"n":1,"std":null,"values":[{"seed":4,"value":99.0}]})");
  const std::string csv = to_csv(all);
  expect_contains(csv,
                  ",paper_multiply_adds,top1_article_mean,top1_article_std,top5_mean,top5_std,"
                  "share_mean,share_std\n");
  expect_contains(csv, ",,41.0,0.7071067811865476,1235.0,0.7071067811865476,,\n");
  expect_contains(csv, ",,,,99.0,,,\n");
}

TEST_F(SweepColumns, AbsentWithoutTheKey) {
  const SweepConfig sweep = load();
  const SweepReport all = report(sweep, runs_of(sweep));
  const auto json = nlohmann::json::parse(to_json(all));
  EXPECT_FALSE(json.contains("columns"));
  EXPECT_FALSE(json["variants"][0].contains("columns"));
  EXPECT_EQ(to_markdown(all).find("top5"), std::string::npos);
  expect_contains(to_csv(all), ",paper_multiply_adds\n");
}

// The archive keeps whole evaluations, also for columns that a sweep gets later.
TEST_F(SweepColumns, AreKeptWithTheResults) {
  const SweepConfig plain = load();
  for (const SweepRun& run : runs_of(plain)) keep_result(plain, run, folder_ / "kept");
  const SweepConfig sweep = load(kThreeColumns);
  std::vector<SweepRun> others = plan_runs(sweep, folder_ / "other", {});
  adopt_kept_results(others, folder_ / "kept", standard_registries().schemas());
  const std::vector<VariantResult> results = results_of(sweep, others);
  EXPECT_EQ(results[0].columns[0]->mean, 41);
  EXPECT_EQ(results[0].columns[1]->n, 2u);
  EXPECT_EQ(results[1].columns[1]->mean, 99);
}

}  // namespace
}  // namespace dtn
