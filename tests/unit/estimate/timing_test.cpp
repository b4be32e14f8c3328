// Statistics of measured times.
#include "apps/estimate/timing.h"

#include <gtest/gtest.h>

namespace dtn {
namespace {

TEST(Timing, MedianIsTheMiddleValue) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({5, 1, 9, 2, 8}), 5);
}

TEST(Timing, MedianOfAnEvenNumberIsTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({1, 2}), 1.5);
  EXPECT_EQ(median({10, 1, 4, 2}), 3);
  EXPECT_EQ(median({7, 7, 1, 9}), 7);
}

}  // namespace
}  // namespace dtn
