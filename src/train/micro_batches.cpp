#include "train/micro_batches.h"

#include <algorithm>
#include <utility>

#include "data/feed/epoch_plan.h"

namespace dtn {
namespace {

// Returns the number of rows of a global batch for each rank.
std::vector<std::int64_t> rows_of_all(std::int64_t batch_size, const Communicator& ranks) {
  std::vector<std::int64_t> rows;
  for (int r = 0; r < ranks.size(); ++r) {
    rows.push_back(static_cast<std::int64_t>(rows_of_rank(batch_size, r, ranks.size()).size()));
  }
  return rows;
}

}  // namespace

MicroBatches::MicroBatches(const TrainConfig& train, const Communicator* ranks)
    : batch_size_(train.batch_size), most_(train.micro_batch.value_or(train.batch_size)) {
  if (!ranks) return;
  rows_of_ranks_ = rows_of_all(batch_size_, *ranks);
  if (std::ranges::min(rows_of_ranks_) >= count_for(rows_of_ranks_[0])) return;
  throw ConfigError(cat("train.batch_size ", batch_size_, " cannot be divided among ",
                        ranks->size(), " processes in micro-batches of ", most_,
                        "; use fewer processes, or a batch_size that is a multiple of 2 x ",
                        ranks->size(), " x micro_batch"));
}

std::int64_t MicroBatches::count_for(std::int64_t rows) const {
  if (!rows_of_ranks_.empty()) return (std::ranges::max(rows_of_ranks_) + most_ - 1) / most_;
  const std::int64_t each = std::min(most_, rows);
  DTN_CHECK(rows % each == 0, "a batch of ", rows, " does not divide into micro-batches of ", each);
  return rows / each;
}

std::vector<MicroBatch> MicroBatches::of(std::int64_t rows) const {
  const std::int64_t count = count_for(rows), all = rows_of_ranks_.empty() ? rows : batch_size_;
  const auto range_of = [count](std::int64_t n, std::int64_t i) {
    return std::pair(n * i / count, n * (i + 1) / count);
  };
  const double average = static_cast<double>(all) / static_cast<double>(count);
  std::vector<MicroBatch> micro_batches;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto [begin, end] = range_of(rows, i);
    std::int64_t all_samples = 0;
    for (std::int64_t n : rows_of_ranks_) {
      all_samples += range_of(n, i).second - range_of(n, i).first;
    }
    micro_batches.push_back(
        {begin, end, all_samples, static_cast<double>(end - begin) / average, i + 1 == count});
  }
  return micro_batches;
}

std::int64_t MicroBatches::min_rows() const {
  std::int64_t fewest = batch_size_;
  const auto look_at = [&](std::int64_t rows) {
    for (const MicroBatch& part : of(rows)) fewest = std::min(fewest, part.end - part.begin);
  };
  if (rows_of_ranks_.empty()) look_at(batch_size_);
  for (const std::int64_t rows : rows_of_ranks_) look_at(rows);
  return fewest;
}

}  // namespace dtn
