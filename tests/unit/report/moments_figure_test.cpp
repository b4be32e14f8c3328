// The figure of mean and deviation over the channels, beside the state before training.
#include <gtest/gtest.h>

#include "apps/report/analysis/figures.h"
#include "texts.h"

namespace dtn {
namespace {

using namespace dtn::test;
using Json = nlohmann::ordered_json;

// A run with two places, of one image of 2 x 3 tokens whose values begin at `first`.
Json run(const char* name, double first) {
  const auto map = [&](double at) {
    return Json::array({Json::array({{at, at + 1, at + 2}, {at + 3, at + 4, at + 5}})});
  };
  Json json = {{"name", name}, {"depth", 1}, {"heads", 1}, {"grid", {2, 3}}};
  json["moments"] = {{"sites", {"enc.0.0", "enc.0.1"}},
                     {"mean", {map(first), map(first + 10)}},
                     {"std", {map(first + 20), map(first + 30)}}};
  json["moment_brightness"] = {{0.75, nullptr}, {-0.5, 0.25}};
  json["moment_edges"] = {{0.125, 1}, {0, 0}};
  return json;
}

Json pair_of_states() {
  Json before = run("net, before training", 100);
  before["before_training_of"] = 1;
  return {{"format", 1}, {"inputs", {{"count", 1}}}, {"checkpoints", {before, run("net", -3)}}};
}

std::vector<plot::Figure> moment_figures(const Json& analysis) {
  std::vector<plot::Figure> found;
  for (plot::Figure& figure : draw_figures(analysis, {})) {
    if (figure.name.starts_with("moments")) found.push_back(std::move(figure));
  }
  return found;
}

TEST(MomentsFigure, HasBothStatesAndTheirRanges) {
  const auto figures = moment_figures(pair_of_states());
  ASSERT_EQ(figures.size(), 1u);
  const plot::Figure& figure = figures.front();
  EXPECT_EQ(figure.name, "moments_2");
  for (const char* text : {"enc.0.1, before training", ">enc.0.1<", ">100 to 105<", ">120 to 125<",
                           ">7 to 12<", ">27 to 32<"}) {
    expect_contains(figure.svg, text);
  }
  ASSERT_EQ(figure.table.rows.size(), 4u);
  EXPECT_EQ(figure.table.rows[2],
            (std::vector<std::string>{"net", "enc.0.0", "0.75", "-", "0.12", "1.00"}));
}

TEST(MomentsFigure, OfARunAloneTellsOfTheOtherState) {
  Json analysis = pair_of_states();
  analysis["checkpoints"].erase(0);
  const auto figures = moment_figures(analysis);
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures.front().name, "moments_1");
  expect_contains(figures.front().caption, "--before");
}

TEST(MomentsFigure, LeavesOutWhatDoesNotFit) {
  Json analysis = pair_of_states();
  analysis["checkpoints"][1]["moments"]["std"][0][0][0] = Json::array({1});
  EXPECT_TRUE(moment_figures(analysis).empty()) << "the states have other places";
  analysis["checkpoints"].erase(0);
  ASSERT_EQ(moment_figures(analysis).size(), 1u);
  EXPECT_EQ(moment_figures(analysis).front().svg.find(">enc.0.0<"), std::string::npos);
  analysis["checkpoints"][0]["moments"] = 3;
  EXPECT_TRUE(moment_figures(analysis).empty());
}

}  // namespace
}  // namespace dtn
