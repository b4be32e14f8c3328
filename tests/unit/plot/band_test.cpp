#include <gtest/gtest.h>

#include "plot/panel.h"

namespace dtn::plot {
namespace {

Series line(std::vector<double> x, std::vector<double> y) {
  Series s;
  s.x = std::move(x);
  s.y = std::move(y);
  return s;
}

TEST(Band, HasMeanMinimumAndMaximum) {
  const std::vector<Series> runs = {line({1, 2}, {10, 20}), line({1, 2}, {14, 18})};
  const Series mean = mean_of(runs);
  EXPECT_EQ(mean.x, (std::vector<double>{1, 2}));
  EXPECT_EQ(mean.y, (std::vector<double>{12, 19}));
  EXPECT_EQ(mean.low, (std::vector<double>{10, 18}));
  EXPECT_EQ(mean.high, (std::vector<double>{14, 20}));
}

TEST(Band, JoinsOnlyWhatAllRunsHave) {
  // The second run lacks a value at 2, and the first run ends at 3.
  const std::vector<Series> runs = {line({1, 2, 3}, {10, 20, 30}),
                                    line({1, 2, 3, 4}, {14, kMissing, 34, 90})};
  const Series mean = mean_of(runs);
  EXPECT_EQ(mean.x, (std::vector<double>{1, 3}));
  EXPECT_EQ(mean.y, (std::vector<double>{12, 32})) << "no jump where a run drops out";
  EXPECT_EQ(mean.low, (std::vector<double>{10, 30}));
  EXPECT_EQ(mean.high, (std::vector<double>{14, 34}));
  EXPECT_TRUE(mean_of(std::vector<Series>{line({1}, {10}), line({2}, {20})}).x.empty());
}

TEST(Band, RunsAtCommonXHaveOneGrid) {
  const std::vector<Series> runs = {line({1, 2, 3, 4}, {1, 2, 3, 4}),
                                    line({6, 5, 4, 3, 2, 1}, {60, 50, 40, 30, 20, 10})};
  const std::vector<Series> joined = at_common_x(runs);
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].x, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(joined[1].x, joined[0].x);
  EXPECT_EQ(joined[1].y, (std::vector<double>{10, 20, 30, 40}));
  EXPECT_EQ(coarser(joined[0], 2).x, coarser(joined[1], 2).x);
  EXPECT_EQ(at_common_x(std::vector<Series>{line({1, 1}, {5, 7})})[0].y, (std::vector<double>{7}))
      << "the last value of an x counts";
  EXPECT_TRUE(at_common_x({}).empty());
}

TEST(Band, OneRunGivesItsLine) {
  const std::vector<Series> runs = {line({1, 2}, {10, 20})};
  const Series mean = mean_of(runs);
  EXPECT_EQ(mean.y, (std::vector<double>{10, 20}));
  EXPECT_TRUE(mean.low.empty());
  EXPECT_TRUE(mean_of({}).x.empty());
}

TEST(Band, CoarserLinesKeepMeans) {
  const Series out = coarser(line({1, 2, 3, 4, 5}, {1, 3, 5, 7, 9}), 3);
  EXPECT_EQ(out.x, (std::vector<double>{1.5, 3.5, 5}));
  EXPECT_EQ(out.y, (std::vector<double>{2, 6, 9}));
  EXPECT_EQ(coarser(line({1, 2}, {1, 3}), 2).y, (std::vector<double>{1, 3}));
}

}  // namespace
}  // namespace dtn::plot
