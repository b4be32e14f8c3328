// Batches of samples of similar length.
#include <algorithm>
#include <numeric>
#include <set>

#include "data/feed/epoch_plan.h"
#include "data_fixtures.h"
#include "dtn/core/philox.h"
#include "epoch_order.h"

namespace dtn {
namespace {

using namespace dtn::test;
using Indices = std::vector<std::int64_t>;

Indices some_lengths(std::int64_t n) {
  Indices lengths;
  for (std::int64_t i = 0; i < n; ++i) {
    lengths.push_back(500 + philox_u32({8}, static_cast<std::uint64_t>(i)) % 1500);
  }
  return lengths;
}

LoaderOptions by_length(const Indices& lengths, std::int64_t batch_size) {
  LoaderOptions options;
  options.batch_size = batch_size;
  options.shuffle = true;
  options.seed = 11;
  options.drop_last = true;
  options.lengths = lengths;
  return options;
}

// The samples of an epoch, batch by batch.
std::vector<Indices> batches_of(const LoaderOptions& options, std::int64_t n, std::int64_t epoch,
                                std::int64_t first_batch = 0) {
  BatchPlan plan(n, options);
  plan.start(epoch);
  std::vector<Indices> batches;
  for (std::int64_t b = first_batch; b < plan.batches(); ++b) {
    batches.emplace_back();
    for (std::int64_t row = 0; row < plan.rows_of(b); ++row) {
      const PlannedSample planned = plan.at(b, row);
      EXPECT_EQ(planned.key % static_cast<std::uint64_t>(n),
                static_cast<std::uint64_t>(planned.index));
      batches.back().push_back(planned.index);
    }
  }
  return batches;
}

// Padding to the longest sample of each batch, relative to the length of the samples.
double padding(const std::vector<Indices>& batches, const Indices& lengths) {
  double padded = 0, used = 0;
  for (const Indices& batch : batches) {
    std::int64_t longest = 0;
    for (std::int64_t i : batch) {
      const std::int64_t length = lengths[static_cast<std::size_t>(i)];
      longest = std::max(longest, length);
      used += static_cast<double>(length);
    }
    padded += static_cast<double>(longest) * static_cast<double>(batch.size());
  }
  return padded / used - 1;
}

TEST(LengthBuckets, NeedLittlePadding) {
  const Indices lengths = some_lengths(6420);
  LoaderOptions options = by_length(lengths, 32);
  const auto batches = batches_of(options, 6420, 0);
  ASSERT_EQ(batches.size(), 200u);
  options.lengths.clear();
  const double any = padding(batches_of(options, 6420, 0), lengths);
  EXPECT_GT(any, 0.4);
  EXPECT_LT(padding(batches, lengths), 0.014);
  Indices all;
  for (const Indices& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 6400u);
}

TEST(LengthBuckets, ShuffleOrderOfLengths) {
  const Indices lengths = some_lengths(6400);
  const auto batches = batches_of(by_length(lengths, 32), 6400, 0);
  double longer = 0;
  for (std::size_t b = 0; b + 1 < batches.size(); ++b) {
    longer += lengths[static_cast<std::size_t>(batches[b + 1].front())] >
              lengths[static_cast<std::size_t>(batches[b].front())];
    EXPECT_TRUE(std::ranges::is_sorted(
        batches[b], {}, [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; }));
  }
  // Half of the 199 neighboring pairs increase; the standard deviation is sqrt(200 / 12).
  EXPECT_NEAR(longer, 99.5, 4.5 * 4.1);
}

TEST(LengthBuckets, DependOnSeedAndEpochOnly) {
  const Indices lengths = some_lengths(700);
  LoaderOptions options = by_length(lengths, 16);
  const auto first = batches_of(options, 700, 3);
  EXPECT_EQ(batches_of(options, 700, 3), first);
  EXPECT_NE(batches_of(options, 700, 4), first);
  // The batches have other samples in each epoch.
  std::set<Indices> seen;
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    for (const Indices& batch : batches_of(options, 700, epoch)) seen.insert(batch);
  }
  EXPECT_EQ(seen.size(), 5u * 43);
  EXPECT_EQ(batches_of(options, 700, 3, 20), std::vector(first.begin() + 20, first.end()));
  options.seed = 12;
  EXPECT_NE(batches_of(options, 700, 3), first);
}

TEST(LengthBuckets, SplitBatchesEvenlyAcrossRanks) {
  const Indices lengths = some_lengths(700);
  LoaderOptions options = by_length(lengths, 16);
  const auto whole = batches_of(options, 700, 1);
  options.ranks = 2;
  std::vector<std::vector<Indices>> ranks;
  for (options.rank = 0; options.rank < 2; ++options.rank) {
    ranks.push_back(batches_of(options, 700, 1));
  }
  for (std::size_t b = 0; b < whole.size(); ++b) {
    std::int64_t sums[2] = {};
    for (int rank = 0; rank < 2; ++rank) {
      const Indices rows = rows_of_rank(16, rank, 2);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::int64_t index = ranks[static_cast<std::size_t>(rank)][b][i];
        EXPECT_EQ(index, whole[b][static_cast<std::size_t>(rows[i])]);
        sums[rank] += lengths[static_cast<std::size_t>(index)];
      }
    }
    EXPECT_LT(std::abs(sums[0] - sums[1]), 8 * 60) << "one rank has the longer samples";
  }
}

TEST(LengthBuckets, SupportPassesEndingWithinBatch) {
  const Indices lengths = some_lengths(330);
  LoaderOptions options = by_length(lengths, 32);
  options.repeats = 3;
  const auto batches = batches_of(options, 330, 0);
  ASSERT_EQ(batches.size(), 30u);
  Indices times(330);
  std::vector<Indices> whole;
  for (std::size_t b = 0; b < 30; ++b) {
    for (std::int64_t i : batches[b]) ++times[static_cast<std::size_t>(i)];
    // The 11th and the 21st batch contain samples of two passes.
    if (b == 10 || b == 20) continue;
    whole.push_back(batches[b]);
    EXPECT_EQ(std::set<std::int64_t>(batches[b].begin(), batches[b].end()).size(), 32u);
  }
  EXPECT_LT(padding(whole, lengths), 0.3);
  EXPECT_EQ(std::accumulate(times.begin(), times.end(), std::int64_t{0}), 960);
  EXPECT_GE(*std::ranges::min_element(times), 2);
  EXPECT_LE(*std::ranges::max_element(times), 3);
  // No sample is lost if there is no full batch.
  options = by_length(some_lengths(5), 32);
  options.drop_last = false;
  auto one = batches_of(options, 5, 0);
  ASSERT_EQ(one.size(), 1u);
  std::ranges::sort(one[0]);
  EXPECT_EQ(one[0], (Indices{0, 1, 2, 3, 4}));
}

TEST(LengthBuckets, KeepEpochOrderWithoutLengths) {
  LoaderOptions options = by_length({}, 8);
  Indices all;
  for (const Indices& batch : batches_of(options, 80, 2)) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(all, epoch_order(11, 2, 80, true));
  options.lengths = some_lengths(80);
  options.shuffle = false;
  all.clear();
  for (const Indices& batch : batches_of(options, 80, 2)) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(all, epoch_order(11, 2, 80, false));
}

// A source of eight samples that returns the given lengths.
class Lengths final : public SampleSource {
 public:
  explicit Lengths(Indices lengths) : lengths_(std::move(lengths)) {}
  std::int64_t size() const override { return 8; }
  const std::string& description() const override { return description_; }
  std::vector<std::int64_t> lengths() const override { return lengths_; }
  std::vector<FieldSpec> host_fields() const override { return {}; }
  void make(std::int64_t, const SampleKey&, FieldRow&, Workspace&) const override {}

 private:
  Indices lengths_;
  std::string description_ = "eight";
};

TEST(LengthBuckets, RejectInvalidLengths) {
  const Indices eight(8, 5);
  LoaderOptions options;
  options.shuffle = true;
  EXPECT_EQ(checked(options, Lengths(eight)).lengths, eight);
  EXPECT_TRUE(checked(options, Lengths({})).lengths.empty());
  expect_error<Error>([&] { checked(options, Lengths({5})); }, {"eight", "1 lengths"});
  options.copies = 2;
  expect_error<ConfigError>([&] { checked(options, Lengths(eight)); },
                            {"augment.repeats is 2", "samples", "length"});
  options.shuffle = false;
  EXPECT_TRUE(checked(options, Lengths(eight)).lengths.empty());
  expect_error<Error>([&] { EpochPlan(2, by_length({5, -1}, 1)); }, {"length -1"});
}

}  // namespace
}  // namespace dtn
