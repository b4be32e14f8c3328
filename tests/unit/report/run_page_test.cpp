// Cards and config differences of the pages about runs.
#include <gtest/gtest.h>

#include "apps/report/config_table.h"
#include "apps/report/run_figures.h"
#include "dtn/core/check.h"
#include "temp_folder.h"
#include "texts.h"

namespace dtn {
namespace {

using test::expect_contains;
using test::TempFolder;

class RunPages : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const { folder_.write(file, text); }
  // Returns report.html of a run whose best evaluation is not the last one.
  std::string page_of(const std::string& config, const std::string& more = "") const {
    write("config.yaml", config);
    write("metrics.jsonl", R"({"step":10,"epoch":1,"loss":2.5,"lr":0.001})"
                           "\n"
                           R"({"step":10,"epoch":1,"split":"val","top1":40.5,"loss":1.5})"
                           "\n"
                           R"({"step":20,"epoch":2,"split":"val","top1":62.25,"loss":1.25})"
                           "\n"
                           R"({"step":20,"epoch":2,"split":"val_ema","top1":63.5,"loss":1.25})"
                           "\n"
                           R"({"step":30,"epoch":3,"split":"val","top1":61.75,"loss":1.75})"
                           "\n" +
                               more);
    write_run_report(folder_.path());
    return folder_.read("report.html");
  }

  TempFolder folder_;
};

std::string card(const char* label, const char* value, const char* note) {
  return cat("<div><dt>", label, "</dt><dd class=\"value\">", value, "</dd><dd class=\"note\">",
             note, "</dd></div>");
}

TEST_F(RunPages, CardsShowFinalAndBestFigure) {
  write("summary.json",
        R"({"count":80,"wall_seconds":75,"images_per_second":218.4,"device":"cpu, 2 threads"})");
  const std::string page = page_of(
      "name: r\ntask: classify\nmodel: {preset: vit_t, image_size: 32}\n"
      "data: {dataset: idx, root: \"/data/<b>\"}\n");
  expect_contains(page, card("Top-1", "61.75 %", "last evaluation, after epoch 3, 80 samples"));
  expect_contains(page, card("Best top-1", "62.25 %", "after epoch 2"));
  expect_contains(page, card("Evaluation loss", "1.75", "best 1.25; training 2.5"));
  expect_contains(page, card("Time", "1 min 15 s", "218 images/s, cpu, 2 threads"));
  expect_contains(page, card("Model", "vit_t", "32 pixels"));
  expect_contains(page, card("Data", "idx", "/data/&lt;b&gt;"));
  EXPECT_LT(page.find("class=\"cards\""), page.find("Finished at step 30"));
}

TEST_F(RunPages, BestOfAveragedWeights) {
  write("summary.json", R"({"best":{"step":20,"weights":"ema","top1":63.5}})");
  expect_contains(page_of("name: r\n"),
                  card("Best top-1", "63.50 %", "after epoch 2, averaged weights"));
}

TEST_F(RunPages, FigureOfTheTaskComesFirst) {
  const std::string page =
      page_of("name: r\ntask: multilabel\n",
              R"({"step":40,"epoch":4,"split":"val","map":0.93558,"loss":0.5,"top1":null})");
  expect_contains(page, card("mAP", "0.9356", "last evaluation, after epoch 4"));
  EXPECT_LT(page.find("<figure id=\"val_map\""), page.find("<figure id=\"loss\""));
}

TEST_F(RunPages, RunInProgressTakesTimeFromItsAttempts) {
  write("attempts.json",
        R"({"attempts":[{"seconds":50,"training_seconds":40,"samples":4000,"device":"a"},)"
        R"({"seconds":25,"training_seconds":20,"samples":2000,"device":"b"}]})");
  expect_contains(page_of("name: r\n"), card("Time so far", "1 min 15 s", "100 images/s, b"));
}

TEST_F(RunPages, ConfigIsFolded) {
  const std::string page = page_of(
      "name: r\nmodel: {preset: vit_t, norm: {type: dtn}}\n"
      "optim: {name: adamw, lr: 0.025}\n");
  const std::size_t at = page.find("<details class=\"folded\"><summary>Config: ");
  ASSERT_NE(at, std::string::npos);
  const std::string config = page.substr(at, page.find("</details>", at) - at);
  expect_contains(config, "differ from the defaults of vit_t</summary>");
  expect_contains(config, "<tr><td>optim.lr</td><td>0.025</td><td>");
  expect_contains(config, "<pre tabindex=\"0\">name: r");
  EXPECT_EQ(config.find("<td>model.norm.type</td>"), std::string::npos)
      << "a choice has no default";
}

TEST_F(RunPages, PageWithoutConfigHasCurves) {
  const std::string page = page_of("no: [config");
  expect_contains(page, "<figure id=\"loss\"");
  EXPECT_EQ(page.find("differ from the defaults"), std::string::npos);
}

TEST_F(RunPages, ComparisonListsKeysThatDiffer) {
  std::vector<RunGroup> groups;
  for (const char* rate : {"0.001", "0.002"}) {
    page_of(cat("name: run at ", rate, "\nseed: 1\noptim: {lr: ", rate, ", betas: [0.9, 0.99]}\n"));
    groups.push_back({cat("lr ", rate), {read_run_record(folder_.path())}});
  }
  const std::string page = comparison_page("Two", groups, {});
  expect_contains(page, "<summary>Config: 1 key differs</summary>");
  expect_contains(page, "<tr><td>optim.lr</td><td>0.001</td><td>0.002</td></tr>");
  expect_contains(page, card("lr 0.001", "61.75 %", "top-1; best 62.25 % after epoch 2"));
}

// Returns a run whose top-1 rises by 1 and whose loss falls by 0.125 per epoch.
RunRecord evaluated_run(double top1, int epochs) {
  RunRecord run;
  run.epoch = epochs;
  Curves& curves = run.evaluations["val"];
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    for (const char* key : {"top1", "loss"}) curves[key].x.push_back(epoch);
    curves["top1"].y.push_back(top1 + epoch);
    curves["loss"].y.push_back(2 - 0.125 * epoch);
  }
  return run;
}

TEST(ComparisonPage, LastValueIsThatOfAnEpochThatAllSeedsHave) {
  RunGroup group{"dtn", {evaluated_run(60, 10), evaluated_run(70, 10), evaluated_run(80, 6)}};
  const std::string page = comparison_page("One", {&group, 1}, {});
  expect_contains(page,
                  "<td>dtn</td><td>3</td><td>6 to 10</td><td>76.00 (epoch 6)</td><td>78.67</td>"
                  "<td>1.2500 (epoch 6)</td>");
  expect_contains(page, card("dtn", "76.00 %", "top-1 after epoch 6; best 78.67 % in 3 runs"));
  const char* lead = "A mean and its band end where the first seed ends.";
  expect_contains(page, lead);

  group.runs.pop_back();
  const std::string equal = comparison_page("One", {&group, 1}, {});
  expect_contains(equal, "<td>dtn</td><td>2</td><td>10</td><td>75.00</td><td>75.00</td>");
  EXPECT_EQ(equal.find(lead), std::string::npos);
}

TEST(ComparisonPage, SeedWithoutEvaluationLeavesNoMean) {
  RunGroup group{"dtn", {evaluated_run(60, 4), evaluated_run(70, 4)}};
  group.runs[1].evaluations.clear();
  expect_contains(comparison_page("One", {&group, 1}, {}),
                  "<td>dtn</td><td>2</td><td>4</td><td>-</td><td>-</td><td>-</td>");
}

TEST(ConfigTable, ListsNestedKeys) {
  const ConfigValues values = config_values("a: 1\nb: {c: [x, 2], d: null}\n");
  EXPECT_EQ(values, (ConfigValues{{"a", "1"}, {"b.c", "[x, 2]"}, {"b.d", "null"}}));
  EXPECT_EQ(value_of(values, "b.d"), "");
  EXPECT_EQ(value_of(values, "b.c"), "[x, 2]");
  EXPECT_TRUE(config_values("a: [").empty());
  const std::vector<std::string> names = {"left", "right"};
  const plot::Table table = differing_values(
      names, std::vector<ConfigValues>{{{"name", "l"}, {"k", "1"}, {"m", "2"}},
                                       {{"name", "r"}, {"k", "1"}, {"n", "3"}, {"z", "null"}}});
  EXPECT_EQ(table.rows, (std::vector<std::vector<std::string>>{{"m", "2", "-"}, {"n", "-", "3"}}));
}

}  // namespace
}  // namespace dtn
