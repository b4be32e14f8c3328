#include "plot/chart.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/heat_map.h"
#include "xml_check.h"

namespace dtn::plot {
namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

Chart two_runs() {
  Chart chart;
  chart.title = "top-1 & loss <all>";
  chart.x.label = "epoch";
  chart.y.label = "top-1 (%)";
  chart.y.limit = kPercent;
  chart.series = {{"LN", {1, 2, 3}, {60, kMissing, 80}, {50, kMissing, 75}, {70, kMissing, 130}, 0},
                  {"<DTN>", {1, 2, 3}, {70, 80, 99}, {}, {}, 1}};
  return chart;
}

TEST(PlotChart, IsWellFormedAndDeterministic) {
  const std::string svg = draw_chart(two_runs(), "a \"picture\"");
  EXPECT_EQ(xml_fault(svg), "") << svg;
  EXPECT_EQ(svg, draw_chart(two_runs(), "a \"picture\""));
  EXPECT_NE(svg.find("&lt;DTN&gt;"), std::string::npos);
  EXPECT_NE(svg.find("aria-label=\"a &quot;picture&quot;\""), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(PlotChart, MarkersHaveTooltips) {
  const std::string svg = draw_chart(two_runs(), "");
  EXPECT_NE(svg.find("<title>&lt;DTN&gt;, epoch 2: 80</title></polygon>"), std::string::npos);
  EXPECT_EQ(count(svg, "<title>"), 5u) << "a missing value has none";
}

TEST(PlotChart, FrameTellsWhereValuesAre) {
  Chart chart = two_runs();
  chart.y.log = true;
  const std::string svg = draw_chart(chart, "");
  EXPECT_EQ(xml_fault(svg), "");
  std::istringstream frame(svg.substr(svg.find("data-frame=\"") + 12));
  double left = 0, top = 0, width = 0, height = 0, x0 = 0, x1 = 0, y0 = 0, y1 = 0;
  int log_x = -1, log_y = -1;
  frame >> left >> top >> width >> height >> x0 >> x1 >> y0 >> y1 >> log_x >> log_y;
  EXPECT_EQ(log_x, 0);
  EXPECT_EQ(log_y, 1);
  // The square of the second series at epoch 2 and 80 %.
  const std::size_t begin =
      svg.find("points=\"", svg.rfind("<polygon", svg.find("epoch 2: 80"))) + 8;
  const double corner_x = std::stod(svg.substr(begin));
  const double corner_y = std::stod(svg.substr(svg.find(',', begin) + 1));
  EXPECT_NEAR(corner_x + 0.88 * 3.5, left + width * (2 - x0) / (x1 - x0), 0.02);
  EXPECT_NEAR(corner_y + 0.88 * 3.5, top + height * (1 - std::log(80 / y0) / std::log(y1 / y0)),
              0.02);
}

TEST(PlotChart, PercentageAxisEndsAtOneHundred) {
  const std::string svg = draw_chart(two_runs(), "");
  EXPECT_NE(svg.find(">100</text>"), std::string::npos);
  EXPECT_EQ(svg.find(">120</text>"), std::string::npos);
}

TEST(PlotChart, AxisReachesRuledValues) {
  Chart chart = two_runs();
  chart.y.limit = {};
  chart.rules = {{0, "nothing"}, {200, "<all>"}};
  const std::string svg = draw_chart(chart, "");
  EXPECT_EQ(xml_fault(svg), "") << svg;
  for (const char* text : {">0</text>", ">200</text>", ">nothing</text>", ">&lt;all&gt;</text>"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(count(svg, "stroke-dasharray=\"1.5 3\""), 2u);
}

TEST(PlotChart, EveryTextIsLargeEnough) {
  const std::string svg = draw_chart(two_runs(), "");
  for (std::size_t at = 0; (at = svg.find("font-size=\"", at)) != std::string::npos; ++at) {
    EXPECT_GE(std::stod(svg.substr(at + 11)), 8.0 * 96 / 72);
  }
}

TEST(PlotChart, LongLinesAreThinned) {
  Chart chart;
  Series s{"long", {}, {}, {}, {}, 0};
  for (int i = 0; i < 20000; ++i) {
    s.x.push_back(i);
    s.y.push_back(std::sin(i * 1e-3));
  }
  chart.series = {s};
  EXPECT_LT(draw_chart(chart, "").size(), 20000u);
}

TEST(PlotChart, SurvivesMissingData) {
  Chart chart;
  EXPECT_EQ(xml_fault(draw_chart(chart, "")), "");
  EXPECT_EQ(xml_fault(draw_bars(chart, "")), "");
  chart.series = {{"none", {}, {}, {}, {}, 0},
                  {"all missing", {1, 2}, {kMissing, kMissing}, {}, {}, 1},
                  {"huge", {1, 2}, {1e300, -1e300}, {}, {}, 2}};
  EXPECT_EQ(xml_fault(draw_chart(chart, "")), "");
  chart.y.log = true;
  EXPECT_EQ(xml_fault(draw_chart(chart, "")), "");
  chart.series = {{"lengths differ", {1, 2}, {1}, {}, {}, 0}};
  EXPECT_THROW(draw_chart(chart, ""), Error);
}

TEST(PlotChart, BarsWithWhiskers) {
  Chart chart;
  chart.x.categories = {"a", "b", "a rather long name of a group", "d", "e", "f", "g", "h", "i"};
  chart.series = {{"LN", {}, {1, 2, 3, 4, 5, 6, 7, 8, kMissing}, {}, {}, 0},
                  {"DTN",
                   {},
                   {2, 3, 4, 5, 6, 7, 8, 9, 1},
                   {1, 2, 3, 4, 5, 6, 7, 8, 1},
                   {3, 4, 5, 6, 7, 8, 9, 10, 1},
                   1}};
  const std::string svg = draw_bars(chart, "");
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(count(svg, "<rect") - 2, 17u + 3u - 1u);  // paper, frame; bars, samples, clip is an svg
}

enum class Part { kLegend, kCurves };

// Returns paint and dashes of each line of a series, in the order of drawing. The lines of curves
// have round ends.
std::vector<std::string> looks_of(const std::string& svg, Part part) {
  std::vector<std::string> looks;
  for (std::size_t at = 0; (at = svg.find("<path", at)) != std::string::npos; ++at) {
    const std::string element = svg.substr(at, svg.find("/>", at) - at);
    const std::size_t paint = element.find("k-s"), dashes = element.find("stroke-dasharray");
    const bool curve = element.find("stroke-linecap") != std::string::npos;
    if (paint == std::string::npos || !std::isdigit(element[paint + 3])) continue;
    if (curve != (part == Part::kCurves)) continue;
    looks.push_back(element.substr(paint, 4) +
                    (dashes == std::string::npos ? "" : element.substr(dashes)));
  }
  return looks;
}

Chart many_lines(std::size_t n) {
  Chart chart;
  for (std::size_t i = 0; i < n; ++i) {
    const double y = static_cast<double>(i);
    chart.series.push_back({cat("variant ", i), {1, 2}, {y, y + 1}, {}, {}, i});
  }
  return chart;
}

TEST(PlotChart, RawValuesLieBehindTheSeries) {
  Chart chart = many_lines(1);
  chart.raw = {{"raw", {1, 2}, {0, 40}, {}, {}, 0}};
  chart.series[0].markers = false;
  const std::string svg = draw_chart(chart, "");
  EXPECT_LT(svg.find("stroke-opacity=\"0.35\""), svg.rfind("stroke-linecap"));
  EXPECT_NE(svg.find(">40</text>"), std::string::npos) << "the axis reaches them";
  EXPECT_EQ(svg.find(">raw</text>"), std::string::npos);
  EXPECT_EQ(count(svg, "<circle"), 0u) << "neither the line nor its legend has a marker";
}

TEST(PlotChart, SixtyLinesHaveDistinctStyles) {
  const std::string svg = draw_chart(many_lines(60), "");
  EXPECT_EQ(xml_fault(svg), "");
  const std::vector<std::string> looks = looks_of(svg, Part::kCurves);
  EXPECT_EQ(looks.size(), 60u);
  EXPECT_EQ(std::set(looks.begin(), looks.end()).size(), 60u);
  EXPECT_NE(svg.find("60 lines are hard to tell apart"), std::string::npos);
  EXPECT_EQ(draw_chart(many_lines(24), "").find("hard to tell apart"), std::string::npos);
}

TEST(PlotChart, NoTwoSeriesSharePaintAndMarkerOrPaintAndDashes) {
  std::set<std::pair<std::string, Marker>> markers;
  std::set<std::pair<std::string, std::string>> dashes;
  for (std::size_t i = 0; i < 49; ++i) markers.emplace(series_paint(i).name, series_marker(i));
  for (std::size_t i = 0; i < 500; ++i) {
    dashes.emplace(series_paint(i).name, series_stroke(i).dashes);
  }
  EXPECT_EQ(markers.size(), 49u);
  EXPECT_EQ(dashes.size(), 500u);
}

// The first variant of a sweep looks the same in every picture, however many others there are.
TEST(PlotChart, LineStyleDoesNotDependOnOtherLines) {
  const std::vector<std::string> few = looks_of(draw_chart(many_lines(2), ""), Part::kCurves);
  const std::vector<std::string> many = looks_of(draw_chart(many_lines(60), ""), Part::kCurves);
  EXPECT_EQ(few, std::vector(many.begin(), many.begin() + 2));
  EXPECT_EQ(few[0], "k-s0");
  EXPECT_EQ(few[1], "k-s1");
  EXPECT_EQ(series_marker(0), Marker::kCircle);
  EXPECT_EQ(series_marker(1), Marker::kSquare);
}

// The frame is the one rectangle with a stroke.
double height_of_frame(const std::string& svg) {
  for (std::size_t at = 0; (at = svg.find("<rect", at)) != std::string::npos; ++at) {
    const std::string element = svg.substr(at, svg.find("/>", at) - at);
    if (element.find("stroke=") == std::string::npos) continue;
    return std::stod(element.substr(element.find("height=\"") + 8));
  }
  return 0;
}

TEST(PlotChart, LongLegendKeepsFrameHeight) {
  EXPECT_GT(height_of_frame(draw_chart(many_lines(60), "")), 200);
  Chart bars = many_lines(60);
  bars.x.categories = {"a", "b"};
  EXPECT_GT(height_of_frame(draw_bars(bars, "")), 200);
}

TEST(PlotChart, LongTitleTakesTwoLines) {
  Chart chart = many_lines(2);
  chart.title = "Normalizers on a folder of 32 x 32 images, ten epochs";
  chart.width = 350;
  const std::string svg = draw_chart(chart, "");
  EXPECT_EQ(count(svg, "font-weight=\"bold\""), 2u);
  EXPECT_NE(svg.find("epochs</text>"), std::string::npos);  // not shortened
}

TEST(PlotChart, LegendMatchesLineStyles) {
  const std::string svg = draw_chart(many_lines(60), "");
  EXPECT_EQ(looks_of(svg, Part::kLegend), looks_of(svg, Part::kCurves));
}

TEST(PlotHeatMap, ManyMapsFormOneImage) {
  Canvas canvas(300, 200);
  HeatSheet sheet(ColorMap::kViridis);
  const std::vector<double> values = {0, 0.5, 1, kMissing};
  for (int i = 0; i < 6; ++i) {
    sheet.add({10.0 + 40 * i, 20, 28, 28}, values, 2, 2, {{0, 1}, ColorMap::kViridis, false});
  }
  sheet.draw(canvas);
  draw_color_bar(canvas, {10, 150, 120, 10}, {{0, 1}, ColorMap::kViridis, true}, "share");
  const std::string svg = canvas.svg("");
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(count(svg, "<image"), 2u);
  EXPECT_THROW(sheet.add({0, 0, 1, 1}, values, 3, 2, {{0, 1}, ColorMap::kViridis, false}), Error);
}

TEST(PlotHeatMap, Scales) {
  const ColorScale plain{{0, 4}, ColorMap::kViridis, false};
  EXPECT_DOUBLE_EQ(plain.position(1), 0.25);
  EXPECT_EQ(plain.color(4), viridis(1));
  const ColorScale root{{0, 4}, ColorMap::kViridis, true};
  EXPECT_DOUBLE_EQ(root.position(1), 0.5);
  EXPECT_TRUE(std::isnan(plain.position(kMissing)));
  EXPECT_TRUE(std::isnan(ColorScale{}.position(1)));
  EXPECT_DOUBLE_EQ((ColorScale{{3, 3}, ColorMap::kViridis, false}).position(3), 0.5);
  EXPECT_EQ((ColorScale{{-3, 3}, ColorMap::kBlueWhiteRed, false}).color(0), blue_white_red(0.5));
}

}  // namespace
}  // namespace dtn::plot
