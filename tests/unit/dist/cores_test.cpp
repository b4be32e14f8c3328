#include <gtest/gtest.h>

#include "dist/launch.h"

namespace dtn {
namespace {

using Masks = std::vector<std::vector<int>>;

TEST(Cores, ExclusiveCoresAreAllUsed) {
  const Masks masks = {{0, 1, 2, 3}, {4, 5}};
  EXPECT_EQ(share_of_cores(masks, 0), 4);
  EXPECT_EQ(share_of_cores(masks, 1), 2);
}

TEST(Cores, SharedCoresAreDivided) {
  const Masks four(4, {0, 1, 2, 3, 4, 5, 6, 7});  // 8 cores of a machine of any size
  EXPECT_EQ(share_of_cores(four, 3), 2);
  const Masks mixed = {{0, 1, 2, 3}, {0, 1}, {2, 3}};
  EXPECT_EQ(share_of_cores(mixed, 0), 2);
  EXPECT_EQ(share_of_cores(mixed, 1), 1);
}

TEST(Cores, EveryRankGetsAtLeastOneThread) {
  const Masks crowd(5, {0, 1});
  EXPECT_EQ(share_of_cores(crowd, 4), 1);
  EXPECT_EQ(share_of_cores(Masks(3, {0, 1, 2}), 1), 1);  // three thirds are one core
}

}  // namespace
}  // namespace dtn
