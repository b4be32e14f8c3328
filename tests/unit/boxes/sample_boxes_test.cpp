#include "tasks/boxes/sample_boxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tasks/boxes/assignment.h"
#include "tensors.h"

namespace dtn::test {
namespace {

// Positives at the multiples of 5, ignored boxes one after them, background elsewhere.
std::vector<std::int32_t> assignment(std::size_t count) {
  std::vector<std::int32_t> assigned;
  for (std::size_t i = 0; i < count; ++i) {
    assigned.push_back(i % 5 == 0   ? static_cast<std::int32_t>(i)
                       : i % 5 == 1 ? kIgnoredBox
                                    : kBackgroundBox);
  }
  return assigned;
}

BoxSample sample(const std::vector<std::int32_t>& assigned, const BoxSampling& sampling,
                 const SampleKey& key, SampledStage stage = SampledStage::kAnchors) {
  return sample_boxes(assigned, sampling, key, stage);
}

TEST(SampleBoxes, NumbersAndKinds) {
  const auto assigned = assignment(1000);  // 200 positive, 600 background
  const auto sizes = [&](std::int64_t total, std::int64_t positive) {
    const BoxSample s = sample(assigned, {total, positive}, {1, 2, 3});
    for (const auto& [list, rest] : {std::pair(s.positive, 0), std::pair(s.negative, 2)}) {
      EXPECT_TRUE(std::ranges::is_sorted(list));
      EXPECT_EQ(std::set<std::int64_t>(list.begin(), list.end()).size(), list.size());
      for (std::int64_t i : list) EXPECT_TRUE(rest == 0 ? i % 5 == 0 : i % 5 >= 2) << i;
    }
    return std::pair(s.positive.size(), s.negative.size());
  };
  EXPECT_EQ(sizes(256, 128), std::pair(std::size_t{128}, std::size_t{128}));
  EXPECT_EQ(sizes(512, 300), std::pair(std::size_t{200}, std::size_t{312})) << "few positives";
  EXPECT_EQ(sizes(1000, 128), std::pair(std::size_t{128}, std::size_t{600})) << "few negatives";
  EXPECT_EQ(sizes(50, 128), std::pair(std::size_t{50}, std::size_t{0}));
  EXPECT_TRUE(sample({}, {256, 128}, {}).positive.empty());
}

TEST(SampleBoxes, DependsOnKeyAndStageOnly) {
  const auto assigned = assignment(1000);
  const BoxSampling sampling{256, 128};
  const BoxSample first = sample(assigned, sampling, {1, 2, 3});
  for (int threads : kThreadCounts) {
    Threads scope(threads);
    std::vector<BoxSample> samples(8);
    parallel_for(8, [&](std::int64_t i) {
      samples[static_cast<std::size_t>(i)] = sample(assigned, sampling, {1, 2, 3});
    });
    for (const BoxSample& s : samples) {
      EXPECT_EQ(s.positive, first.positive);
      EXPECT_EQ(s.negative, first.negative);
    }
  }
  for (const SampleKey& other : {SampleKey{2, 2, 3}, SampleKey{1, 3, 3}, SampleKey{1, 2, 4}}) {
    const BoxSample s = sample(assigned, sampling, other);
    EXPECT_NE(s.positive, first.positive);
    EXPECT_NE(s.negative, first.negative);
  }
  const BoxSample later = sample(assigned, sampling, {1, 2, 3}, SampledStage::kProposals);
  EXPECT_NE(later.negative, first.negative);
}

// Each of n boxes is in a share m / n of the samples, and each pair in m (m - 1) / (n (n - 1)).
TEST(SampleBoxes, Uniform) {
  constexpr int kDraws = 20000, kBoxes = 8, kKept = 3;
  const std::vector<std::int32_t> background(kBoxes, kBackgroundBox);
  int single[kBoxes] = {}, pairs[kBoxes][kBoxes] = {};
  for (int draw = 0; draw < kDraws; ++draw) {
    const BoxSample s = sample(background, {kKept, 2}, {5, 0, static_cast<std::uint64_t>(draw)});
    ASSERT_EQ(s.negative.size(), static_cast<std::size_t>(kKept));
    for (std::int64_t a : s.negative) {
      ++single[a];
      for (std::int64_t b : s.negative) pairs[a][b] += a < b;
    }
  }
  const auto expect_share = [&](int count, double p) {
    EXPECT_NEAR(count, kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)));
  };
  for (int a = 0; a < kBoxes; ++a) {
    expect_share(single[a], static_cast<double>(kKept) / kBoxes);
    for (int b = a + 1; b < kBoxes; ++b) expect_share(pairs[a][b], 3.0 * 2 / (8 * 7));
  }
}

}  // namespace
}  // namespace dtn::test
