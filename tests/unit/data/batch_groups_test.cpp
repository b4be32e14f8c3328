// Batches of samples of one group.
#include <algorithm>
#include <map>
#include <set>

#include "data/feed/epoch_plan.h"
#include "data_fixtures.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

using namespace dtn::test;
using Indices = std::vector<std::int64_t>;

constexpr std::int64_t kSamples = 107;
constexpr std::int64_t kBatch = 5;

// About a third of the samples are of group 1, the others of group 7.
std::vector<std::uint8_t> some_groups() {
  std::vector<std::uint8_t> groups;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    groups.push_back(philox_u32({8}, static_cast<std::uint64_t>(i)) % 3 == 0 ? 1 : 7);
  }
  return groups;
}

LoaderOptions by_group(int repeats = 1) {
  LoaderOptions options;
  options.batch_size = kBatch;
  options.shuffle = true;
  options.seed = 11;
  options.drop_last = true;
  options.repeats = repeats;
  options.groups = some_groups();
  return options;
}

// The samples of an epoch, batch by batch.
std::vector<Indices> batches_of(const LoaderOptions& options, std::int64_t epoch) {
  BatchPlan plan(kSamples, options);
  plan.start(epoch);
  std::vector<Indices> batches;
  for (std::int64_t b = 0; b < plan.batches(); ++b) {
    batches.emplace_back();
    for (std::int64_t row = 0; row < plan.rows_of(b); ++row) {
      batches.back().push_back(plan.at(b, row).index);
    }
  }
  return batches;
}

std::int64_t count(std::uint8_t group) { return std::ranges::count(some_groups(), group); }

TEST(BatchGroups, FillTheLastBatchOfEachGroup) {
  const auto groups = some_groups();
  const std::int64_t batches = (count(1) + kBatch - 1) / kBatch + (count(7) + kBatch - 1) / kBatch;
  ASSERT_NE(count(1) % kBatch, 0) << "the test needs a batch to fill";
  EXPECT_EQ(BatchGroups::pass_length_of(groups, kBatch), batches * kBatch);
  for (int repeats : {1, 2}) {
    const auto epoch = batches_of(by_group(repeats), 3);
    ASSERT_EQ(epoch.size(), static_cast<std::size_t>(batches * repeats));
    std::map<std::int64_t, int> uses;
    for (const Indices& batch : epoch) {
      ASSERT_EQ(batch.size(), static_cast<std::size_t>(kBatch));
      for (const std::int64_t i : batch) {
        ++uses[i];
        EXPECT_EQ(groups[static_cast<std::size_t>(i)],
                  groups[static_cast<std::size_t>(batch.front())]);
      }
    }
    EXPECT_EQ(uses.size(), static_cast<std::size_t>(kSamples));
    for (const auto& [sample, times] : uses) EXPECT_LE(times, 2 * repeats) << sample;
  }
}

TEST(BatchGroups, ShuffleSamplesAndBatches) {
  const auto groups = some_groups();
  const auto first = batches_of(by_group(), 0);
  EXPECT_EQ(first, batches_of(by_group(), 0));
  EXPECT_NE(first, batches_of(by_group(), 1));
  int changes = 0;
  for (std::size_t b = 1; b < first.size(); ++b) {
    changes += groups[static_cast<std::size_t>(first[b][0])] !=
               groups[static_cast<std::size_t>(first[b - 1][0])];
  }
  EXPECT_GT(changes, 5) << "groups come one after the other";
}

// A group that is smaller than a batch repeats its samples as often as needed.
TEST(BatchGroups, SmallGroup) {
  BatchGroups groups({5, 5, 5, 2}, 8);
  ASSERT_EQ(groups.pass_length(), 16);
  const Indices shuffled = {2, 3, 0, 1};
  groups.arrange(shuffled, 1, 0, 0);
  Indices order = groups.order();
  if (order[0] != 3) std::rotate(order.begin(), order.begin() + 8, order.end());
  EXPECT_EQ(order, (Indices{3, 3, 3, 3, 3, 3, 3, 3, 2, 0, 1, 2, 0, 1, 2, 0}));
}

// The rows of all ranks together are the batch of one rank.
TEST(BatchGroups, RanksShareBatches) {
  const auto alone = batches_of(by_group(), 2);
  std::vector<std::multiset<std::int64_t>> together(alone.size());
  for (int rank = 0; rank < 2; ++rank) {
    LoaderOptions options = by_group();
    options.rank = rank;
    options.ranks = 2;
    const auto part = batches_of(options, 2);
    ASSERT_EQ(part.size(), alone.size());
    for (std::size_t b = 0; b < part.size(); ++b)
      together[b].insert(part[b].begin(), part[b].end());
  }
  for (std::size_t b = 0; b < alone.size(); ++b) {
    EXPECT_EQ(together[b], (std::multiset<std::int64_t>(alone[b].begin(), alone[b].end())));
  }
}

}  // namespace
}  // namespace dtn
