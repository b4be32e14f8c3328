#include "plot/axis.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dtn::plot {
namespace {

std::string labels(const Scale& scale) {
  std::string out;
  for (const Tick& t : scale.ticks()) out += (out.empty() ? "" : " ") + t.label;
  return out;
}

Axis axis_of(double low, double high) {
  Axis axis;
  axis.data = {low, high};
  return axis;
}

TEST(PlotAxis, LinearTicksAreRound) {
  EXPECT_EQ(labels(Scale(axis_of(0, 1), 5)), "0 0.2 0.4 0.6 0.8 1.0");
  EXPECT_EQ(labels(Scale(axis_of(0, 97), 5)), "0 20 40 60 80 100");
  EXPECT_EQ(labels(Scale(axis_of(-0.3, 0.31), 4)),
            "\xE2\x88\x92"
            "0.4 \xE2\x88\x92"
            "0.2 0 0.2 0.4");
  EXPECT_EQ(labels(Scale(axis_of(0, 93800), 5)), "0 20k 40k 60k 80k 100k");
}

TEST(PlotAxis, RoundedRangesContainData) {
  for (double low : {-3.7, 0.0, 1e-5, 17.0}) {
    for (double width : {1e-6, 0.37, 12.0, 1e7}) {
      const Scale scale(axis_of(low, low + width), 6);
      EXPECT_LE(scale.low(), low + 1e-6 * width);
      EXPECT_GE(scale.high(), low + width * (1 - 1e-6));
      EXPECT_GE(scale.ticks().size(), 2u);
      EXPECT_LE(scale.ticks().size(), 14u);
    }
  }
}

TEST(PlotAxis, PercentagesEndAtOneHundred) {
  Axis axis = axis_of(62, 99.4);
  axis.limit = kPercent;
  const Scale scale(axis, 4);
  EXPECT_EQ(scale.high(), 100);
  EXPECT_EQ(scale.limited(101.5), 100);
  EXPECT_EQ(scale.limited(-2), 0);
  axis.data = {100, 100};  // the margin does not exceed the limit
  EXPECT_EQ(Scale(axis, 4).high(), 100);
}

TEST(PlotAxis, LogarithmicTicks) {
  Axis axis = axis_of(1e-5, 0.5);
  axis.log = true;
  const Scale decades(axis, 8);
  EXPECT_EQ(labels(decades), "1e-5 1e-4 0.001 0.01 0.1 1");
  EXPECT_NEAR(decades.position(1e-5), 0, 1e-12);
  EXPECT_NEAR(decades.position(1), 1, 1e-12);
  EXPECT_TRUE(std::isnan(decades.position(0)));
  EXPECT_TRUE(std::isnan(decades.position(-1)));
  axis.data = {3, 40};
  EXPECT_EQ(labels(Scale(axis, 8)), "2 5 10 20 50");
}

TEST(PlotAxis, DegenerateRanges) {
  EXPECT_LT(Scale(axis_of(5, 5), 4).low(), 5);
  EXPECT_GT(Scale(axis_of(5, 5), 4).high(), 5);
  EXPECT_EQ(Scale({}, 4).low(), 0);
  EXPECT_EQ(Scale({}, 4).high(), 1);
  Axis log = axis_of(-2, -1);
  log.log = true;
  EXPECT_GT(Scale(log, 4).low(), 0);
  Range range;
  range.take_in(kMissing);
  EXPECT_TRUE(range.empty());
  range.take_in(3);
  range.take_in(INFINITY);
  EXPECT_EQ(range.high, 3);
}

TEST(PlotAxis, Categories) {
  Axis axis;
  axis.categories = {"LN", "DTN"};
  const Scale scale(axis, 9);
  EXPECT_EQ(labels(scale), "LN DTN");
  EXPECT_DOUBLE_EQ(scale.position(0), 0.25);
  EXPECT_DOUBLE_EQ(scale.position(1), 0.75);
}

}  // namespace
}  // namespace dtn::plot
