// Curves of runs: which lines a figure has, their order and look, and the values below the pointer.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/report/run_figures.h"
#include "dtn/core/check.h"
#include "texts.h"

namespace dtn {
namespace {

using Json = nlohmann::json;
using test::expect_contains;

constexpr int kEpochs = 6, kStepsPerEpoch = 50;

// A loss that jumps from step to step, so that smoothing changes it.
double loss_at(int step) { return 2.0 / (1 + 0.01 * step) + (step % 2 ? 0.1 : -0.1); }
// A rate that changes at a single step.
double rate_at(int step) { return step < 120 ? 1e-3 : 2.5e-4; }

RunRecord record_of(const std::string& name, double top1, int epochs = kEpochs) {
  RunRecord run;
  run.name = name;
  for (int step = 1; step <= epochs * kStepsPerEpoch; ++step) {
    const double epoch = static_cast<double>(step) / kStepsPerEpoch;
    const auto log = [&](Curves& curves, const char* key, double value) {
      curves[key].x.push_back(epoch);
      curves[key].y.push_back(value);
    };
    log(run.training, "loss", loss_at(step));
    log(run.training, "lr", rate_at(step));
    if (step % kStepsPerEpoch != 0) continue;
    for (const char* split : {"val", "val_ema"}) {
      log(run.evaluations[split], "loss", loss_at(step) + 0.25);
      log(run.evaluations[split], "top1", top1 + epoch);
    }
  }
  return run;
}

std::vector<RunGroup> groups_of(const std::vector<std::string>& names) {
  std::vector<RunGroup> groups;
  double top1 = 50;
  for (const std::string& name : names) groups.push_back({name, {record_of(name, top1 += 5)}});
  return groups;
}

const plot::Figure& figure_named(const std::vector<plot::Figure>& figures,
                                 const std::string& name) {
  for (const plot::Figure& figure : figures) {
    if (figure.name == name) return figure;
  }
  throw Error("no figure " + name);
}

Json lines_in(const plot::Figure& figure) { return Json::parse(figure.values)["lines"]; }

std::vector<std::string> names_in(const plot::Figure& figure) {
  std::vector<std::string> names;
  const Json lines = lines_in(figure);
  for (const Json& line : lines) names.push_back(line["name"]);
  return names;
}

// Returns the texts of a picture that are among the names, in their order: its legend.
std::vector<std::string> legend_of(const std::string& svg, const std::set<std::string>& names) {
  std::vector<std::string> found;
  for (std::size_t at = 0; (at = svg.find("<text", at)) != std::string::npos; ++at) {
    const std::size_t begin = svg.find('>', at) + 1;
    const std::string text = svg.substr(begin, svg.find('<', begin) - begin);
    if (names.contains(text)) found.push_back(text);
  }
  return found;
}

TEST(RunCurves, TrainingAndEvaluationShareTheChartOfTheLoss) {
  const auto groups = groups_of({"ln"});
  const auto figures = curve_figures(groups);
  const plot::Figure& loss = figure_named(figures, "loss");
  EXPECT_EQ(loss.title, "Loss: training and evaluation");
  const std::vector<std::string> lines = {"training", "evaluation", "averaged weights"};
  EXPECT_EQ(names_in(loss), lines);
  EXPECT_EQ(legend_of(loss.svg, {lines.begin(), lines.end()}), lines);
  EXPECT_EQ(names_in(figure_named(figures, "val_top1")),
            std::vector(lines.begin() + 1, lines.end()));
  for (const plot::Figure& figure : figures) {
    EXPECT_NE(figure.name, "training_loss");
    EXPECT_NE(figure.name, "val_loss");
  }
  // Logged values lie behind the smoothed line.
  expect_contains(loss.svg, "pale: logged values; line: means of neighbours");
  expect_contains(loss.svg, "stroke-opacity=\"0.35\"");
}

TEST(RunCurves, PointerShowsTheFiguresOfTheRecord) {
  const auto groups = groups_of({"ln"});
  const auto figures = curve_figures(groups);
  const Json values = Json::parse(figure_named(figures, "loss").values);
  EXPECT_EQ(values["x"], "epoch");
  const Json& training = values["lines"][0];
  ASSERT_EQ(training["x"].size(), static_cast<std::size_t>(kEpochs * kStepsPerEpoch));
  for (int step = 1; step <= kEpochs * kStepsPerEpoch; ++step) {
    const auto i = static_cast<std::size_t>(step - 1);
    EXPECT_NEAR(training["y"][i].get<double>(), loss_at(step), 1e-5) << "unsmoothed";
    EXPECT_NEAR(training["x"][i].get<double>(), static_cast<double>(step) / kStepsPerEpoch, 1e-5);
  }
  const Json& evaluated = values["lines"][1];
  ASSERT_EQ(evaluated["y"].size(), static_cast<std::size_t>(kEpochs));
  EXPECT_NEAR(evaluated["y"][2].get<double>(), loss_at(3 * kStepsPerEpoch) + 0.25, 1e-5);
}

// Seeds of 6 and 4 epochs. The longer one has the lower top-1 and the higher loss.
RunGroup seeds_of_different_length() {
  RunGroup group{"dtn", {record_of("seed-0", 50, 6), record_of("seed-1", 60, 4)}};
  for (double& loss : group.runs[0].training["loss"].y) loss += 1;
  return group;
}

TEST(RunCurves, SeedsOfDifferentLengthAreSmoothedAtTheSameEpochs) {
  RunGroup group = seeds_of_different_length();
  for (RunRecord& run : group.runs) run.evaluations.clear();
  const auto figures = curve_figures({&group, 1});
  const plot::Figure& loss = figure_named(figures, "loss");
  // The last path is the line: its points come as x,y and are separated by L.
  const std::size_t begin = loss.svg.find("d=\"", loss.svg.rfind("<path")) + 3;
  const std::string path = loss.svg.substr(begin, loss.svg.find('"', begin) - begin);
  std::vector<double> heights;
  for (std::size_t at = 0; (at = path.find(',', at)) != std::string::npos; ++at) {
    heights.push_back(std::stod(path.substr(at + 1)));
  }
  EXPECT_EQ(heights.size(), 50u) << "200 common steps, 4 to a point";
  EXPECT_TRUE(std::ranges::is_sorted(heights)) << "a falling loss is no sawtooth: " << path;
  const Json line = lines_in(loss)[0];
  ASSERT_EQ(line["y"].size(), 200u);
  for (const std::size_t i : {0u, 199u}) {
    const double y = loss_at(static_cast<int>(i) + 1);
    EXPECT_NEAR(line["y"][i].get<double>(), y + 0.5, 1e-5);
    EXPECT_NEAR(line["low"][i].get<double>(), y, 1e-5);
    EXPECT_NEAR(line["high"][i].get<double>(), y + 1, 1e-5);
  }
}

TEST(RunCurves, MeanEndsWhereTheFirstSeedEnds) {
  const RunGroup group = seeds_of_different_length();
  const auto figures = curve_figures({&group, 1});
  const plot::Figure& top1 = figure_named(figures, "val_top1");
  const Json line = lines_in(top1)[0];
  EXPECT_EQ(line["x"].get<std::vector<double>>(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(line["y"].get<std::vector<double>>(), (std::vector<double>{56, 57, 58, 59}));
  EXPECT_EQ(top1.table.columns, (std::vector<std::string>{"line", "first", "last", "last epoch",
                                                          "min", "max", "runs"}));
  EXPECT_EQ(top1.table.rows[0],
            (std::vector<std::string>{"evaluation", "56", "59", "4", "56", "59", "2"}));
  expect_contains(top1.svg, "bands: minimum to maximum until a run ends");
  expect_contains(top1.caption, "A mean and its band end where the first run ends.");
  // Seeds of equal length need no such words.
  const RunGroup equal{"ln", {record_of("seed-0", 50), record_of("seed-1", 60)}};
  const auto others = curve_figures({&equal, 1});
  expect_contains(figure_named(others, "val_top1").svg, "minimum to maximum of several runs");
  EXPECT_EQ(figure_named(others, "val_top1").caption, "");
}

TEST(RunCurves, LineOfSomeSeedsSaysSo) {
  RunGroup dtn{"dtn", {record_of("seed-0", 50), record_of("seed-1", 60)}};
  dtn.runs[1].evaluations.clear();
  const std::vector<RunGroup> groups = {dtn, {"ln", {record_of("ln", 55)}}};
  const auto figures = curve_figures(groups);
  const plot::Figure& top1 = figure_named(figures, "val_top1");
  const std::vector<std::string> names = {"dtn (1 of 2 runs)", "ln"};
  EXPECT_EQ(names_in(top1), names);
  EXPECT_EQ(legend_of(top1.svg, {names.begin(), names.end()}), names);
  EXPECT_EQ(top1.table.rows[0].back(), "1");
  EXPECT_EQ(names_in(figure_named(figures, "learning_rate")),
            (std::vector<std::string>{"dtn", "ln"}));
}

TEST(RunCurves, LearningRateIsNotSmoothed) {
  const auto groups = groups_of({"ln"});
  const auto figures = curve_figures(groups);
  const plot::Figure& rate = figure_named(figures, "learning_rate");
  EXPECT_EQ(rate.svg.find("neighbour"), std::string::npos);
  const Json values = lines_in(rate)[0]["y"];
  for (int step = 1; step <= kEpochs * kStepsPerEpoch; ++step) {
    EXPECT_DOUBLE_EQ(values[static_cast<std::size_t>(step - 1)].get<double>(), rate_at(step));
  }
  // The line has a point for each step, and falls at one place.
  const std::size_t begin = rate.svg.find("d=\"", rate.svg.rfind("<path")) + 3;
  const std::string path = rate.svg.substr(begin, rate.svg.find('"', begin) - begin);
  EXPECT_EQ(std::ranges::count(path, 'L'), kEpochs * kStepsPerEpoch - 1);
  std::set<std::string> heights;
  for (std::size_t at = 0; (at = path.find(',', at)) != std::string::npos; ++at) {
    heights.insert(path.substr(at, path.find_first_of("LM", at) - at));
  }
  EXPECT_EQ(heights.size(), 2u);
}

TEST(RunCurves, LegendsKeepTheOrderOfRunsInAllFigures) {
  // The first run is the worst, and names are not in alphabetical order.
  const std::vector<std::string> names = {"zeta", "alpha", "mid"};
  const auto groups = groups_of(names);
  const auto figures = curve_figures(groups);
  for (const char* name : {"val_top1", "val_ema_top1", "loss", "learning_rate"}) {
    const plot::Figure& figure = figure_named(figures, name);
    EXPECT_EQ(legend_of(figure.svg, {names.begin(), names.end()}), names) << name;
    EXPECT_EQ(legend_of(figure.phone_svg, {names.begin(), names.end()}), names) << name;
    const Json lines = lines_in(figure);
    for (std::size_t i = 0; i < names.size(); ++i) {
      for (const Json& line : lines) {
        if (!line["name"].get<std::string>().starts_with(names[i])) continue;
        EXPECT_EQ(line["paint"], plot::series_paint(i).name) << "a colour per run";
      }
    }
  }
}

TEST(RunCurves, LinesOfAFigureDifferInColourAndMarker) {
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back(cat("run ", i));
  const auto groups = groups_of(names);
  const Json lines = lines_in(figure_named(curve_figures(groups), "val_top1"));
  std::set<std::pair<std::string, std::string>> looks;
  for (const Json& line : lines) looks.emplace(line["paint"], line["mark"]);
  EXPECT_EQ(looks.size(), names.size());
}

TEST(RunCurves, HostileNamesStayTextInPagesAndValues) {
  const std::string hostile = "a\"b\\</script><script>alert('x')</script>&\n";
  const auto groups = groups_of({hostile, "ln"});
  const auto figures = curve_figures(groups);
  EXPECT_EQ(names_in(figure_named(figures, "val_top1"))[0], hostile);
  const std::string page = comparison_page("Two", groups, figures);
  EXPECT_EQ(page.find("alert('"), page.npos) << "quotes are escaped";
  EXPECT_EQ(page.find("<script>"), page.rfind("<script>")) << "the only script is that of the page";
  EXPECT_EQ(page.find("</script>"), page.rfind("</script>"));
}

TEST(RunCurves, PicturesFitTheirCellAndAPhone) {
  const auto groups = groups_of({"ln"});
  for (const plot::Figure& figure : curve_figures(groups)) {
    EXPECT_TRUE(figure.cell);
    expect_contains(figure.svg, "width=\"540\"");
    expect_contains(figure.phone_svg, "width=\"350\"");
  }
  EXPECT_FALSE(curve_figures(groups, 900).at(0).cell) << "a wide picture needs the whole page";
}

TEST(RunCurves, AveragedWeightsOfSeveralRunsHaveTheirOwnFigure) {
  const auto groups = groups_of({"a", "b"});
  const auto figures = curve_figures(groups);
  EXPECT_EQ(names_in(figure_named(figures, "val_ema_top1")), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(
      names_in(figure_named(figures, "loss")),
      (std::vector<std::string>{"a, training", "a, evaluation", "b, training", "b, evaluation"}));
}

}  // namespace
}  // namespace dtn
