// Every row is in one micro-batch, and their weighted means give the mean of the batch.
#include "train/micro_batches.h"

#include "small_run.h"

namespace dtn {
namespace {

using namespace dtn::test;

TrainConfig training(int batch_size, std::optional<int> micro_batch) {
  TrainConfig train;
  train.batch_size = batch_size;
  if (micro_batch) train.micro_batch = *micro_batch;
  return train;
}

void expect_rows_once(const std::vector<MicroBatch>& parts, std::int64_t rows) {
  std::int64_t next = 0;
  for (const MicroBatch& part : parts) {
    EXPECT_EQ(part.begin, next);
    EXPECT_GT(part.end, part.begin);
    next = part.end;
    EXPECT_EQ(part.last, part.end == rows);
  }
  EXPECT_EQ(next, rows);
}

TEST(MicroBatches, SplitOneRankEqually) {
  const auto whole = MicroBatches(training(12, {}), nullptr).of(12);
  ASSERT_EQ(whole.size(), 1u);
  expect_rows_once(whole, 12);
  const auto parts = MicroBatches(training(12, 4), nullptr).of(12);
  ASSERT_EQ(parts.size(), 3u);
  expect_rows_once(parts, 12);
  for (const MicroBatch& part : parts) {
    EXPECT_EQ(part.weight, 1);
    EXPECT_EQ(part.end - part.begin, 4);
  }
  EXPECT_EQ(MicroBatches(training(12, 64), nullptr).of(12).size(), 1u);
  EXPECT_THROW(MicroBatches(training(12, 5), nullptr).of(12), Error);
}

TEST(MicroBatches, ReportMinimumRows) {
  EXPECT_EQ(MicroBatches(training(12, {}), nullptr).min_rows(), 12);
  EXPECT_EQ(MicroBatches(training(12, 4), nullptr).min_rows(), 4);
  EXPECT_EQ(MicroBatches(training(12, 1), nullptr).min_rows(), 1);
  // Ranks with 4, 4 and 2 rows, with two micro-batches each.
  on_ranks(3, [&](Communicator& all) {
    EXPECT_EQ(MicroBatches(training(10, 2), &all).min_rows(), 1);
    return 0;
  });
}

TEST(MicroBatches, MatchAcrossRanksAndWeighByRows) {
  for (int batch_size : {12, 10, 8}) {
    for (int size : {2, 3, 4}) {
      for (int micro_batch : {2, 3, 64}) {
        SCOPED_TRACE(cat(size, " ranks share ", batch_size, " by ", micro_batch));
        const auto ranks = on_ranks(size, [&](Communicator& all) {
          const auto rows =
              static_cast<std::int64_t>(rows_of_rank(batch_size, all.rank(), size).size());
          const auto parts = MicroBatches(training(batch_size, micro_batch), &all).of(rows);
          expect_rows_once(parts, rows);
          for (const MicroBatch& part : parts) EXPECT_LE(part.end - part.begin, micro_batch);
          return parts;
        });
        for (std::size_t i = 0; i < ranks[0].size(); ++i) {
          std::int64_t samples = 0;
          for (const auto& parts : ranks) {
            ASSERT_EQ(parts.size(), ranks[0].size());
            samples += parts[i].end - parts[i].begin;
          }
          for (const auto& parts : ranks) {
            EXPECT_EQ(parts[i].all_samples, samples);
            // Divided by the number of micro-batches, every row has the same weight.
            EXPECT_DOUBLE_EQ(parts[i].weight / static_cast<double>(parts.size()),
                             static_cast<double>(parts[i].end - parts[i].begin) / batch_size);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn
