// The figures of synthetic analyses. tests/e2e/report.sh opens a report in a browser.
#include "apps/report/analysis/figures.h"

#include <gtest/gtest.h>

#include <set>

#include "example_analysis.h"
#include "xml_check.h"

namespace dtn {
namespace {

using Json = nlohmann::ordered_json;

ExampleRun run_of(const std::string& name, bool dtn, std::vector<ExampleStage> stages,
                  bool plain = true) {
  ExampleRun run;
  run.name = name;
  run.normalizer = dtn ? "dtn" : "layer_norm";
  run.stages = std::move(stages);
  run.plain = plain;
  run.dtn = dtn;
  run.history = dtn ? 4 : 0;
  return run;
}

const std::vector<ExampleStage> kSmall = {{2, 4, 3, 3}};

std::set<std::string> names_of(const std::vector<plot::Figure>& figures) {
  std::set<std::string> names;
  for (const plot::Figure& f : figures) names.insert(f.name);
  return names;
}

void expect_sound(const std::vector<plot::Figure>& figures) {
  for (const plot::Figure& f : figures) {
    EXPECT_EQ(xml_fault(f.svg), "") << f.name;
    EXPECT_EQ(f.svg.find("nan"), std::string::npos) << f.name;
    EXPECT_FALSE(f.title.empty() || f.caption.empty() || f.description.empty()) << f.name;
    EXPECT_FALSE(f.table.rows.empty()) << f.name;
    for (const auto& row : f.table.rows) EXPECT_LE(row.size(), f.table.columns.size()) << f.name;
  }
}

TEST(AnalysisFigures, ShowEveryQuantityWithData) {
  const Analysis a = example_analysis({run_of("LN", false, kSmall), run_of("DTN", true, kSmall)});
  const std::vector<plot::Figure> figures = draw_figures(a.json, a.previews);
  expect_sound(figures);
  const std::set<std::string> expected = {"token_magnitude_norm1",
                                          "token_magnitude_norm2",
                                          "token_magnitude_variation",
                                          "token_magnitude_mean",
                                          "attention_distance",
                                          "attention_distance_std",
                                          "pca_raw_spread",
                                          "attention_entropy",
                                          "attention_to_class",
                                          "rollout",
                                          "variation_coefficient",
                                          "variation_coefficient_median",
                                          "p_norm1",
                                          "p_norm2",
                                          "p_offset",
                                          "p_radius",
                                          "p_tokens",
                                          "lambda_mean",
                                          "lambda_var",
                                          "lambda_mean_history_2",
                                          "lambda_var_history_2",
                                          "pca_points",
                                          "pca_spread",
                                          "pca_explained",
                                          "token_cosine",
                                          "residual_rms",
                                          "gradient_norm",
                                          "cka"};
  EXPECT_EQ(names_of(figures), expected);
  EXPECT_EQ(names_of(figures).size(), figures.size());
}

const plot::Figure& figure_named(const std::vector<plot::Figure>& figures,
                                 const std::string& name) {
  for (const plot::Figure& f : figures) {
    if (f.name == name) return f;
  }
  throw Error("no figure " + name);
}

// Returns the y of the first text element that contains exactly this text; empty if there is none.
std::string height_of_text(const std::string& svg, const std::string& text) {
  const std::size_t end = svg.find(">" + text + "</text>");
  if (end == svg.npos) return "";
  const std::size_t y = svg.find(" y=\"", svg.rfind("<text", end)) + 4;
  return svg.substr(y, svg.find('"', y) - y);
}

TEST(AnalysisFigures, PositionsShowStateBeforeTrainingBesideRun) {
  Analysis a = example_analysis({run_of("DTN, before training", true, kSmall),
                                 run_of("DTN", true, kSmall), run_of("other", true, kSmall)});
  a.json["checkpoints"][0]["before_training_of"] = 1;
  const std::vector<plot::Figure> figures = draw_figures(a.json, a.previews);
  expect_sound(figures);
  const plot::Figure& p = figure_named(figures, "p_norm1");
  const std::string before = height_of_text(p.svg, "layer 1 before");
  EXPECT_NE(before, "");
  EXPECT_EQ(before, height_of_text(p.svg, "after"));
  EXPECT_NE(height_of_text(p.svg, "layer 1"), "") << "a run without the state before";
  EXPECT_EQ(height_of_text(p.svg, "DTN, before training"), "") << "the row has the run's name";
  EXPECT_EQ(p.table.rows.size(), 3u * 2 * 4);
  // Other maps keep a row of their own for each state.
  EXPECT_EQ(height_of_text(figure_named(figures, "token_magnitude_norm1").svg, "after"), "");
}

TEST(AnalysisFigures, PositionsTellTiesOfFourTokens) {
  constexpr const char* kTie = "four tokens share the largest weight";
  Analysis a = example_analysis({run_of("DTN", true, kSmall)});
  const auto caption = [&] { return figure_named(draw_figures(a.json, {}), "p_norm1").caption; };
  EXPECT_EQ(caption().find(kTie), std::string::npos);
  auto& map = a.json["checkpoints"][0]["p_center_token"][1][0][2];
  map = {{0.193, 0.193, 0.05}, {0.193, 0.193, 0.05}, {0.05, 0.05, 0.028}};
  EXPECT_NE(caption().find("In 1 map four tokens share the largest weight (up to 0.193 each)"),
            std::string::npos)
      << caption();
  // Equal weights that are no square of four tokens, such as those of a band, are no such tie.
  map = {{0.1, 0.1, 0.1}, {0.1, 0.1, 0.1}, {0.1, 0.1, 0.1}};
  EXPECT_EQ(caption().find(kTie), std::string::npos);
}

TEST(AnalysisFigures, AreDeterministic) {
  const Analysis a = example_analysis({run_of("DTN", true, kSmall)});
  const std::vector<plot::Figure> one = draw_figures(a.json, a.previews);
  const std::vector<plot::Figure> two = draw_figures(a.json, a.previews);
  EXPECT_EQ(report_html(a.json, one), report_html(a.json, two));
}

TEST(AnalysisFigures, SupportStageModelsAndMixedRuns) {
  const std::vector<ExampleStage> stages = {{2, 1, 28, 28}, {2, 2, 14, 14}, {3, 5, 7, 7}};
  const Analysis a =
      example_analysis({run_of("PVT", false, stages, false), run_of("PVT-DTN", true, stages, false),
                        run_of("ViT", true, kSmall)});
  const std::vector<plot::Figure> figures = draw_figures(a.json, a.previews);
  expect_sound(figures);
  EXPECT_TRUE(names_of(figures).contains("p_norm1"));
}

// A run without DTN has no figures of P. The tables hold the numbers of the JSON.
TEST(AnalysisFigures, TablesMatchJson) {
  Analysis a = example_analysis({run_of("LN", false, kSmall)});
  a.json["checkpoints"][0]["attention_distance"] = {{1.5, 2.5, 3.5, 4.5}, {nullptr, 1, 1, 7}};
  const std::vector<plot::Figure> figures = draw_figures(a.json, a.previews);
  EXPECT_FALSE(names_of(figures).contains("p_norm1"));
  for (const plot::Figure& f : figures) {
    if (f.name != "attention_distance") continue;
    ASSERT_EQ(f.table.rows.size(), 2u);
    EXPECT_EQ(f.table.rows[0],
              (std::vector<std::string>{"LN", "block", "1", "3", "1.5", "2.5", "3.5", "4.5"}));
    EXPECT_EQ(f.table.rows[1],
              (std::vector<std::string>{"LN", "block", "2", "1", "-", "1", "1", "7"}));
  }
}

TEST(AnalysisFigures, PercentageAxisEndsAtOneHundred) {
  Analysis a = example_analysis({run_of("LN", false, kSmall)});
  for (Json& layer : a.json["checkpoints"][0]["pca"]["directions"]["explained"]) {
    layer = Json::parse("[[[0.99, 0.01], [0.7, 0.3]], [[0.99, 0.01], [0.7, 0.3]]]");
  }
  for (const plot::Figure& f : draw_figures(a.json, {})) {
    if (f.name != "pca_explained") continue;
    EXPECT_NE(f.svg.find(">100</text>"), std::string::npos);
    EXPECT_EQ(f.svg.find(">120</text>"), std::string::npos);
  }
}

// Replaces each value in turn by something invalid; drawing must continue without the value.
class Spoiler {
 public:
  explicit Spoiler(const Analysis& whole) : whole_(whole) {}

  void spoil(const Json::json_pointer& at, int depth) {
    const Json& value = whole_.json.at(at);
    for (const char* text : {"null", "[]", "\"<script>\"", "[[[[1e300]]]]"}) {
      Analysis copy = whole_;
      copy.json.at(at) = Json::parse(text);
      const std::vector<plot::Figure> figures = draw_figures(copy.json, copy.previews);
      const std::string page = report_html(copy.json, figures);
      EXPECT_EQ(page.find("<script"), std::string::npos) << at << " " << text;
      if (depth == 0) {
        EXPECT_EQ(xml_fault(page, true), "") << at << " " << text;
      }
      ++tried;
    }
    if (depth == 0) return;
    if (value.is_object()) {
      for (const auto& [key, unused] : value.items()) spoil(at / key, depth - 1);
    } else if (value.is_array() && !value.empty()) {
      spoil(at / (value.size() - 1), depth - 1);
    }
  }

  int tried = 0;

 private:
  const Analysis& whole_;
};

TEST(AnalysisFigures, SurviveAnyJson) {
  Analysis a = example_analysis(
      {run_of("LN", false, {{1, 1, 2, 2}}), run_of("DTN", true, {{2, 2, 2, 3}}, false)});
  for (Json& run : a.json["checkpoints"]) {
    for (const char* key : {"before", "after"}) {
      if (run.contains("pca_points")) run["pca_points"][key] = {{1, 2}, {3, 4}};
    }
  }
  a.previews.resize(1);
  Spoiler spoiler(a);
  spoiler.spoil(Json::json_pointer(), 3);
  EXPECT_GT(spoiler.tried, 100);
}

TEST(AnalysisFigures, SkipInvalidPreviews) {
  const Analysis a = example_analysis({run_of("LN", false, kSmall)});
  const std::vector<Preview> wrong = {{2, 2, {1, 2, 3}}, {0, 0, {}}, {1, 1, {1, 2, 3}}};
  expect_sound(draw_figures(a.json, wrong));
  expect_sound(draw_figures(a.json, {}));
}

TEST(AnalysisFigures, IgnoreHugeSizes) {
  Analysis a = example_analysis({run_of("LN", false, kSmall)});
  Json& run = a.json["checkpoints"][0];
  run["depth"] = 2000000000;
  EXPECT_FALSE(names_of(draw_figures(a.json, {})).contains("attention_distance"));
  run["depth"] = 2;
  run["grid"] = {100000000, 100000000};
  expect_sound(draw_figures(a.json, {}));
}

}  // namespace
}  // namespace dtn
