#include <gtest/gtest.h>

#include "apps/bench/benchmark.h"

namespace dtn {
namespace {

TEST(TraceTable, SumsByNameAndSortsByTime) {
  const std::vector<KernelTotal> totals =
      add_up({{"norm", 2.0}, {"matmul", 40.0}, {"norm", 3.5}, {"gelu", 6.0}, {"norm", 1.5}});
  ASSERT_EQ(totals.size(), 3u);
  EXPECT_EQ(totals[0].name, "matmul");
  EXPECT_EQ(totals[0].calls, 1);
  EXPECT_EQ(totals[1].name, "norm");
  EXPECT_EQ(totals[1].calls, 3);
  EXPECT_DOUBLE_EQ(totals[1].us, 7.0);
  EXPECT_EQ(totals[2].name, "gelu");
  EXPECT_TRUE(add_up({}).empty());
}

TEST(TraceTable, ShowsSharesAndGapsOfStep) {
  const std::string table = trace_table({{"matmul", 1, 75}, {"norm", 4, 25}}, 125);
  EXPECT_EQ(
      table,
      "kernel                                         calls     total us    mean us     share\n"
      "matmul                                             1         75.0      75.00    75.0 %\n"
      "norm                                               4         25.0       6.25    25.0 %\n"
      "all                                                5        100.0      20.00   100.0 %\n"
      "gaps: 25.0 us of a step of 125.0 us (20.0 %)\n");
  // An empty trace.
  EXPECT_NE(trace_table({}, 0).find("gaps: 0.0 us of a step of 0.0 us (0.0 %)"), std::string::npos);
}

}  // namespace
}  // namespace dtn
