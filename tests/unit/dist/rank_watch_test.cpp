#include "dist/rank_watch.h"

#include <gtest/gtest.h>

namespace dtn {
namespace {

RankNote note(int rank, std::uint64_t entered, double waited, double allowance = 20,
              const char* doing = "working") {
  RankNote n{rank, entered, 0, waited, allowance, {}};
  std::snprintf(n.doing, sizeof n.doing, "%s", doing);
  return n;
}

TEST(RankWatch, ReportsNothingWhileRanksAreHealthy) {
  RankWatch watch(0, 3, 20, 0);
  for (double now = 1; now < 100; ++now) {
    for (int r = 0; r < 3; ++r) watch.hear(note(r, 5, r == 1 ? 0 : 1.5), now);
    ASSERT_FALSE(watch.judge(now));
  }
}

TEST(RankWatch, FindsSilentRank) {
  RankWatch watch(0, 3, 20, 0);
  for (double now = 1; now < 30; ++now) {
    watch.hear(note(0, 5, 0), now);
    watch.hear(note(1, 5, 0), now);
    if (now < 6) watch.hear(note(2, 5, 0), now);
    auto verdict = watch.judge(now);
    ASSERT_EQ(verdict.has_value(), now > 25) << now;
    if (verdict) {
      EXPECT_EQ(verdict->rank, 2);
    }
  }
}

TEST(RankWatch, OtherRanksDetectSilentRootOneAfterAnother) {
  RankWatch second(1, 3, 20, 0), third(2, 3, 20, 0);
  EXPECT_FALSE(second.judge(20.4));
  EXPECT_TRUE(second.judge(20.6));
  EXPECT_EQ(second.judge(20.6)->rank, 0);
  EXPECT_FALSE(third.judge(20.9));
  EXPECT_TRUE(third.judge(21.1));
  // Ranks other than 0 judge only the silence of rank 0.
  third.hear(note(0, 1, 0), 50);
  EXPECT_FALSE(third.judge(60));
}

TEST(RankWatch, FindsRankThatBlocksOthers) {
  RankWatch watch(0, 3, 20, 0);
  watch.hear(note(0, 8, 19), 1);
  watch.hear(note(1, 7, 0, 20, "reading images"), 1);
  watch.hear(note(2, 8, 3), 1);
  EXPECT_FALSE(watch.judge(1));
  watch.hear(note(0, 8, 21), 2);
  auto verdict = watch.judge(2);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_NE(verdict->what.find("reading images"), std::string::npos);
}

TEST(RankWatch, RespectsTimeoutOfRank) {
  RankWatch watch(0, 2, 20, 0);
  watch.hear(note(0, 8, 900), 1);
  watch.hear(note(1, 7, 0, 1800, "writing a checkpoint"), 1);
  EXPECT_FALSE(watch.judge(1));
  watch.hear(note(0, 8, 1801), 1);
  EXPECT_TRUE(watch.judge(1));
}

TEST(RankWatch, FindsLastOfSeveralWaitingRanks) {
  RankWatch watch(0, 4, 20, 0);
  watch.hear(note(0, 9, 30), 1);
  watch.hear(note(1, 8, 25), 1);  // waits for rank 3 too
  watch.hear(note(2, 9, 30), 1);
  watch.hear(note(3, 7, 0), 1);
  ASSERT_TRUE(watch.judge(1));
  EXPECT_EQ(watch.judge(1)->rank, 3);
}

TEST(RankWatch, DetectsDeadlock) {
  RankWatch watch(0, 2, 20, 0);
  auto hear = [&](double now, std::uint64_t finished) {
    for (int r = 0; r < 2; ++r) {
      RankNote n = note(r, 5, now - 0.5);
      n.finished = finished;
      watch.hear(n, now);
    }
  };
  // No verdict while parts of a large message arrive.
  for (double now = 1; now < 100; ++now) {
    hear(now, static_cast<std::uint64_t>(now));
    ASSERT_FALSE(watch.judge(now));
  }
  for (double now = 100; now < 139; ++now) {
    hear(now, 99);
    ASSERT_FALSE(watch.judge(now));
  }
  hear(140, 99);
  ASSERT_TRUE(watch.judge(140));
  EXPECT_FALSE(watch.judge(140)->rank);
}

TEST(RankWatch, IgnoresTimeOfMachineSuspension) {
  RankWatch watch(0, 2, 20, 0);
  watch.hear(note(1, 1, 0), 1);
  EXPECT_TRUE(watch.judge(3600));
  watch.forgive(3600);
  EXPECT_FALSE(watch.judge(3610));
  EXPECT_TRUE(watch.judge(3621));
}

TEST(RankWatch, IsQuietWithoutTimeout) {
  RankWatch watch(0, 2, 0, 0);
  EXPECT_FALSE(watch.judge(1e6));
}

TEST(RankWatch, IgnoresNotesOfInvalidRanks) {
  RankWatch watch(0, 2, 20, 0);
  watch.hear(note(7, 1, 0), 1);
  watch.hear(note(-1, 1, 0), 1);
  EXPECT_FALSE(watch.judge(1));
}

}  // namespace
}  // namespace dtn
