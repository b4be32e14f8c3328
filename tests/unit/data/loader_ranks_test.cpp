// Repeated augmentation, and the rows of each rank.
#include <algorithm>
#include <numeric>
#include <ranges>
#include <set>
#include <utility>

#include "epoch_order.h"
#include "loader_fixtures.h"
#include "transform_runs.h"

namespace dtn {
namespace {

using namespace dtn::test;

using Indices = std::vector<std::int64_t>;

LoaderOptions options_of_rank(LoaderOptions options, int rank, int ranks) {
  options.rank = rank;
  options.ranks = ranks;
  return options;
}

// All indices of an epoch, in order.
Indices sequence(const std::vector<Record>& epoch) {
  Indices all;
  for (const Record& r : epoch) all.insert(all.end(), r.indices.begin(), r.indices.end());
  return all;
}

// Returns the output of the transform for an image and a key.
std::vector<float> prepared(const Dataset& set, std::int64_t index, const SampleKey& key) {
  SampleWorkspace sample;
  TransformWorkspace workspace;
  const Transform transform = make_transform();
  std::vector<float> out(static_cast<std::size_t>(transform.output_size()));
  test::apply(transform, *set.load(index, sample).image, key, workspace, out.data());
  return out;
}

// Returns the batches of an epoch, assembled from those of all ranks.
std::vector<Record> put_together(const std::shared_ptr<const Dataset>& set, LoaderOptions options,
                                 int ranks, std::int64_t number, std::int64_t first_batch = 0) {
  std::vector<Record> whole;
  for (int rank = 0; rank < ranks; ++rank) {
    const Indices rows = rows_of_rank(options.batch_size, rank, ranks);
    const auto mine = epoch(set, options_of_rank(options, rank, ranks), number, first_batch);
    whole.resize(mine.size());
    for (std::size_t b = 0; b < mine.size(); ++b) {
      const auto size = static_cast<std::size_t>(options.batch_size);
      const std::size_t each = mine[b].pixels.size() / rows.size();
      whole[b].number = mine[b].number;
      whole[b].indices.resize(size);
      whole[b].labels.resize(size);
      whole[b].pixels.resize(size * each);
      EXPECT_EQ(mine[b].indices.size(), rows.size());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto row = static_cast<std::size_t>(rows[i]);
        whole[b].indices[row] = mine[b].indices[i];
        whole[b].labels[row] = mine[b].labels[i];
        std::copy_n(mine[b].pixels.begin() + static_cast<std::ptrdiff_t>(i * each), each,
                    whole[b].pixels.begin() + static_cast<std::ptrdiff_t>(row * each));
      }
    }
  }
  return whole;
}

TEST(EpochLength, MatchesDeit) {
  EXPECT_EQ(epoch_length(1'281'167, 1, 1), 1'281'167);
  EXPECT_EQ(epoch_length(1'281'167, 1, 3), 1'281'024);
  EXPECT_EQ(epoch_length(1'281'167, 1, 3) / 1024, 1251);
  EXPECT_EQ(epoch_length(1'281'167, 2, 3), 2 * 1'281'024);
  EXPECT_EQ(epoch_length(255, 1, 3), 255);
  EXPECT_EQ(epoch_length(256, 1, 3), 256);
  EXPECT_EQ(epoch_length(511, 4, 2), 4 * 256);
  EXPECT_EQ(epoch_length(511, 4, 1), 4 * 511);
  EXPECT_THROW(epoch_length(std::int64_t{1} << 40, 1 << 20, 2), DataError);
}

TEST(RepeatedAugmentation, RepeatsImagesWithNewRandomNumbers) {
  constexpr std::int64_t n = 300;
  auto set = std::make_shared<FakeDataset>(n);
  LoaderOptions options = training(2, 16);
  options.copies = 3;
  options.repeats = 2;
  const auto batches = epoch(set, options, 4);
  ASSERT_EQ(batches.size(), 2u * 256 / 16);
  const Indices all = sequence(batches);
  constexpr std::size_t each = 3 * kSide * kSide;
  for (std::int64_t pass = 0; pass < 2; ++pass) {
    const Indices order = epoch_order(options.seed, 4, n, true, pass);
    for (std::int64_t place = 0; place < 256; ++place) {
      const auto at = static_cast<std::size_t>(pass * 256 + place);
      const std::int64_t index = order[static_cast<std::size_t>(place / 3)];
      ASSERT_EQ(all[at], index);
      if (place % 50 > 3) continue;
      const auto key = static_cast<std::uint64_t>((pass * 3 + place % 3) * n + index);
      const auto begin =
          batches[at / 16].pixels.begin() + static_cast<std::ptrdiff_t>(at % 16 * each);
      EXPECT_EQ(std::vector<float>(begin, begin + each),
                prepared(*set, index, {options.seed, 4, key}));
    }
  }
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.begin() + 256).size(), 86u);  // a third of 256
}

// With one copy each sample has the same key as without repeated augmentation.
TEST(RepeatedAugmentation, OneCopyChangesNothing) {
  auto set = std::make_shared<FakeDataset>(10);
  LoaderOptions options = training(1, 5);
  options.repeats = 3;
  const auto batches = epoch(set, options, 2);
  ASSERT_EQ(batches.size(), 6u);
  for (std::size_t b = 0; b < 6; ++b) {
    const auto pass = static_cast<std::int64_t>(b / 2);
    const Indices order = epoch_order(options.seed, 2, 10, true, pass);
    std::vector<float> expected;
    for (std::size_t i = 0; i < 5; ++i) {
      const std::int64_t index = order[b % 2 * 5 + i];
      EXPECT_EQ(batches[b].indices[i], index);
      const auto one =
          prepared(*set, index, {options.seed, 2, static_cast<std::uint64_t>(pass * 10 + index)});
      expected.insert(expected.end(), one.begin(), one.end());
    }
    EXPECT_EQ(batches[b].pixels, expected) << b;
  }
}

TEST(RepeatedAugmentation, KeepsDatasetOrderWithoutShuffling) {
  LoaderOptions options = training(0, 4);
  options.shuffle = false;
  options.copies = 2;
  EXPECT_EQ(sequence(epoch(std::make_shared<FakeDataset>(8), options, 0)),
            (Indices{0, 0, 1, 1, 2, 2, 3, 3}));
}

TEST(RowsOfRank, SplitBatchInMirroredPairs) {
  for (std::int64_t size = 0; size <= 40; ++size) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      std::vector<int> owner(static_cast<std::size_t>(size), -1);
      std::size_t least = 1000, most = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Indices rows = rows_of_rank(size, rank, ranks);
        EXPECT_TRUE(std::ranges::is_sorted(rows));
        for (std::size_t i = 0; i < rows.size(); ++i) {
          EXPECT_EQ(std::exchange(owner[static_cast<std::size_t>(rows[i])], rank), -1);
          EXPECT_EQ(rows[rows.size() - 1 - i], size - 1 - rows[i]);  // rows are symmetric
        }
        least = std::min(least, rows.size());
        most = std::max(most, rows.size());
      }
      EXPECT_EQ(std::ranges::count(owner, -1), 0);
      EXPECT_LE(most - least, size % (2 * ranks) == 0 ? 0u : 2u) << size << " over " << ranks;
    }
  }
  EXPECT_EQ(rows_of_rank(8, 0, 2), (Indices{0, 2, 5, 7}));
  EXPECT_EQ(rows_of_rank(8, 1, 2), (Indices{1, 3, 4, 6}));
}

TEST(LoaderRanks, SplitSameGlobalBatches) {
  auto set = dataset_with_bad(300, {7, 8, 120});
  for (const std::int64_t batch_size : {24, 10}) {
    for (const int copies : {1, 3}) {
      LoaderOptions options = training(0, batch_size);
      options.copies = copies;
      const auto expected = epoch(set, options, 3);
      for (int ranks = 1; ranks <= 5; ++ranks) {
        options.workers = ranks % 3;
        EXPECT_TRUE(put_together(set, options, ranks, 3) == expected)
            << batch_size << " over " << ranks << ", copies " << copies;
      }
      // Stops at some batch, and continues with another number of ranks.
      for (int ranks : {1, 2, 4}) {
        EXPECT_TRUE(put_together(set, options, ranks, 3, 5) ==
                    std::vector<Record>(expected.begin() + 5, expected.end()));
      }
    }
  }
}

TEST(LoaderRanks, EvaluateEveryImageOnce) {
  for (std::int64_t n : {1, 2, 5, 7, 16, 33}) {
    const auto set = std::make_shared<FakeDataset>(n);
    for (std::int64_t batch_size : {1, 4, 7, 64}) {
      const auto expected = epoch(set, evaluation(0, 1), 0);
      for (int ranks = 1; ranks <= 5; ++ranks) {
        Indices all;
        std::int64_t promised = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const LoaderOptions options =
              options_of_rank(evaluation(rank % 3, batch_size), rank, ranks);
          Loader loader(samples(set, make_transform(false)), options);
          EXPECT_EQ(loader.batches_per_epoch(), (n + batch_size - 1) / batch_size);
          promised += loader.samples_per_epoch();
          loader.start(0);
          for (const Record& r : read_all(loader)) {
            EXPECT_LE(static_cast<std::int64_t>(r.indices.size()), loader.batch_size());
            EXPECT_TRUE(
                std::ranges::equal(r.pixels | std::views::take(3 * kSide * kSide),
                                   expected[static_cast<std::size_t>(r.indices[0])].pixels));
            for (std::size_t i = 0; i < r.indices.size(); ++i) {
              EXPECT_EQ(r.labels[i], 1000 + r.indices[i]);
              EXPECT_EQ(r.indices[i] / batch_size, r.number);
              all.push_back(r.indices[i]);
            }
          }
        }
        EXPECT_EQ(promised, n);
        std::ranges::sort(all);
        Indices everything(static_cast<std::size_t>(n));
        std::iota(everything.begin(), everything.end(), 0);
        EXPECT_EQ(all, everything) << n << " in batches of " << batch_size << " over " << ranks;
      }
    }
  }
}

TEST(LoaderRanks, NeedOneRowEachInTraining) {
  const auto set = std::make_shared<FakeDataset>(40);
  expect_error<ConfigError>([&] { epoch(set, options_of_rank(training(0, 4), 0, 3), 0); },
                            {"train.batch_size 4", "3 processes", "raise it to 6"});
  EXPECT_EQ(epoch(set, options_of_rank(training(0, 5), 2, 3), 0).size(), 8u);
}

}  // namespace
}  // namespace dtn
