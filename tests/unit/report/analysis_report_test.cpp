
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/report/analysis/analysis_json.h"
#include "apps/report/analysis/figures.h"
#include "example_analysis.h"
#include "xml_check.h"

namespace dtn {
namespace {

using Json = nlohmann::ordered_json;

ExampleRun whole(const std::string& name, bool dtn) {
  ExampleRun run;
  run.name = name;
  run.dtn = dtn;
  run.history = dtn ? 500 : 0;
  return run;
}

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(AnalysisReport, IsOneWellFormedFileOfModerateSize) {
  const Analysis a = example_analysis({whole("LN", false), whole("DTN", true)});
  const std::vector<plot::Figure> figures = draw_figures(a.json, a.previews);
  const std::string page = report_html(a.json, figures);
  EXPECT_EQ(xml_fault(page, true), "");
  EXPECT_LT(page.size(), 8u << 20);
  EXPECT_EQ(occurrences(page, "<figure "), figures.size());
  EXPECT_EQ(occurrences(page, "<summary>Numbers: "), figures.size());
  const auto narrow = static_cast<std::size_t>(std::ranges::count_if(
      figures, [](const plot::Figure& figure) { return !figure.phone_svg.empty(); }));
  // Each picture has a description, and the table of contents a name.
  EXPECT_EQ(occurrences(page, "aria-label=\""), figures.size() + narrow + 1);
}

TEST(AnalysisReport, StartsWithFiveLineSummary) {
  const Analysis a = example_analysis({whole("LN", false), whole("DTN", true)});
  const std::string page = report_html(a.json, {});
  const std::string lead = page.substr(0, page.find("</ul>"));
  EXPECT_EQ(occurrences(lead, "<li>"), 5u);
  EXPECT_NE(lead.find("LN (layer_norm, 12 layers, 9 heads, step 93800)"), std::string::npos);
  EXPECT_NE(lead.find("on 64 images of fashion_mnist: LN 0.42 and DTN 0.31."), std::string::npos);
}

TEST(AnalysisReport, EscapesNames) {
  const Analysis a =
      example_analysis({whole("<script>alert(1)</script>", true), whole("\xFF\"'&", true)});
  const std::string page = report_html(a.json, draw_figures(a.json, a.previews));
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(xml_fault(page, true), "");
}

TEST(AnalysisReport, AcceptsEmptyAnalysis) {
  EXPECT_EQ(xml_fault(report_html(Json(), {}), true), "");
  EXPECT_EQ(xml_fault(report_html(Json::parse(R"({"checkpoints": []})"), {}), true), "");
}

// Two runs of two layers with equal numbers, for tests that change two of them.
Json twins() {
  Json run = Json::parse(R"({"name": "A", "depth": 2, "heads": 2, "grid": [2, 2],
    "attention_distance": [[1, 1], [1, 1]], "attention_entropy": [[1, 1], [1, 1]],
    "gradient_norm": [1, 2]})");
  Json analysis;
  analysis["checkpoints"] = {run, run};
  analysis["checkpoints"][1]["name"] = "B";
  return analysis;
}

TEST(AnalysisDifferences, AreSortedBySize) {
  Json a = twins();
  EXPECT_TRUE(drawing::largest_differences(drawing::read_runs(a), 3).empty());
  a["checkpoints"][1]["attention_entropy"][1] = {1.25, 1.25};
  a["checkpoints"][1]["attention_distance"][0] = {0.5, 0.5};
  const std::vector<std::string> said = drawing::largest_differences(drawing::read_runs(a), 3);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0],
            "B and A differ in the attention distance, most in layer 1: 0.5 patches against 1 "
            "patches (0.5 times).");
  EXPECT_EQ(said[1],
            "B and A differ in the entropy of attention, most in layer 2: 1.25 nats against 1 nats "
            "(1.25 times).");
  EXPECT_EQ(drawing::largest_differences(drawing::read_runs(a), 1).size(), 1u);
}

TEST(AnalysisDifferences, OneRunComparesItsLayers) {
  Json a = twins();
  a["checkpoints"].erase(1);
  const std::vector<std::string> said = drawing::largest_differences(drawing::read_runs(a), 3);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0], "In A the gradient norm of a block goes from 1 (layer 1) to 2 (layer 2).");
}

TEST(Illustrations, MatchNumbersOfPaper) {
  const std::vector<plot::Figure> figures = illustrations();
  ASSERT_EQ(figures.size(), 2u);
  for (const plot::Figure& f : figures) EXPECT_EQ(xml_fault(f.svg), "");
  const auto& p = figures[0].table.rows;
  ASSERT_EQ(p.size(), 27u);
  EXPECT_EQ(p[0][2], "1/9");
  EXPECT_EQ(p[9], (std::vector<std::string>{"3 neighbours", "1", "1/2", "1/2", "0", "0", "0", "0",
                                            "0", "0", "0"}));
  EXPECT_EQ(p[13][5], "1/3");
  EXPECT_EQ(p[18][2], "1/3");
  EXPECT_EQ(p[22][4], "1/5");
  const std::string minus =
      "\xE2\x88\x92"
      "1";
  const auto& d = figures[1].table.rows;
  ASSERT_EQ(d.size(), 12u);
  const std::vector<std::vector<std::string>> dx = {{"0", "1", "0", "1"}, {minus, "0", minus, "0"}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(std::vector<std::string>(d[4 + i].begin() + 2, d[4 + i].end()), dx[i % 2]);
    EXPECT_EQ(std::vector<std::string>(d[8 + i].begin() + 2, d[8 + i].end()),
              i < 2 ? (std::vector<std::string>{"0", "0", "1", "1"})
                    : (std::vector<std::string>{minus, minus, "0", "0"}));
  }
}

}  // namespace
}  // namespace dtn
