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
  const std::vector<Series> runs = {line({1, 2}, {10, 20}), line({1, 2, 3}, {14, kMissing, 30})};
  const Series mean = mean_of(runs);
  EXPECT_EQ(mean.x, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(mean.y, (std::vector<double>{12, 20, 30}));
  EXPECT_EQ(mean.low, (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(mean.high, (std::vector<double>{14, 20, 30}));
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
