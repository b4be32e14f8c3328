#include "data/feed/epoch_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "data/feed/shuffle.h"
#include "dtn/core/check.h"

namespace dtn {

namespace {

constexpr std::uint32_t kShuffleStream = 0x53485546;  // "SHUF"
constexpr std::int64_t kSamplerUnit = 256;            // as in DeiT's RASampler
constexpr std::int64_t kMaxKeys = std::int64_t{1} << 60;

}  // namespace

std::int64_t epoch_length(std::int64_t images, int repeats, int copies) {
  DTN_CHECK(images >= 0 && repeats >= 1 && copies >= 1, "epoch_length(", images, ", ", repeats,
            ", ", copies, ")");
  const bool whole = copies == 1 || images < kSamplerUnit;
  const std::int64_t pass = whole ? images : images / kSamplerUnit * kSamplerUnit;
  std::int64_t length = 0, keys = 0;
  if (__builtin_mul_overflow(pass, std::int64_t{repeats}, &length) ||
      __builtin_mul_overflow(images, std::int64_t{repeats} * copies, &keys) || keys > kMaxKeys) {
    throw DataError(cat("data.repeats ", repeats, " is too large for ", images, " images"));
  }
  return length;
}

std::int64_t epoch_length(const SampleSource& source, std::int64_t batch_size, int repeats,
                          int copies) {
  const std::vector<std::uint8_t> groups = source.groups();
  const std::int64_t pass =
      groups.empty() ? source.size() : BatchGroups::pass_length_of(groups, batch_size);
  return epoch_length(pass, repeats, copies);
}

std::vector<std::int64_t> rows_of_rank(std::int64_t batch_size, int rank, int ranks) {
  DTN_CHECK(batch_size >= 0 && 0 <= rank && rank < ranks, "rows_of_rank(", batch_size, ", ", rank,
            ", ", ranks, ")");
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < batch_size; ++row) {
    if (std::min(row, batch_size - 1 - row) % ranks == rank) rows.push_back(row);
  }
  return rows;
}

EpochPlan::EpochPlan(std::int64_t images, const LoaderOptions& options)
    : images_(images),
      copies_(options.copies),
      shuffle_(options.shuffle),
      seed_(options.seed),
      order_(shuffle_ ? static_cast<std::size_t>(images) : 0),
      balanced_(shuffle_ ? options.labels : std::vector<std::int64_t>{}),
      buckets_(shuffle_ ? options.lengths : std::vector<std::int64_t>{}, options.batch_size),
      groups_(shuffle_ ? options.groups : std::vector<std::uint8_t>{}, options.batch_size) {
  length_ =
      epoch_length(groups_.empty() ? images : groups_.pass_length(), options.repeats, copies_);
  pass_length_ = length_ / options.repeats;
}

void EpochPlan::start(std::int64_t epoch) {
  epoch_ = epoch;
  pass_ = -1;
}

void EpochPlan::order_pass(std::int64_t pass) {
  if (balanced_.empty()) {
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    const PhiloxKey key{seed_, kShuffleStream, static_cast<std::uint32_t>(epoch_)};
    shuffle_places(order_.size(), key, static_cast<std::uint64_t>(pass) * order_.size(),
                   [&](std::size_t i, std::size_t j) { std::swap(order_[i], order_[j]); });
  } else {
    balanced_.draw(order_, seed_, epoch_, pass);
  }
  if (!buckets_.empty()) buckets_.arrange(order_, seed_, epoch_, pass);
  if (!groups_.empty()) groups_.arrange(order_, seed_, epoch_, pass);
  pass_ = pass;
}

PlannedSample EpochPlan::at(std::int64_t position) {
  const std::int64_t pass = position / pass_length_, place = position % pass_length_;
  std::int64_t index = place / copies_;
  const std::int64_t copy = place % copies_;
  // An image that is drawn twice has different random numbers each time.
  std::int64_t unique = index;
  if (shuffle_) {
    if (pass != pass_) order_pass(pass);
    index = (groups_.empty() ? order_ : groups_.order())[static_cast<std::size_t>(index)];
    if (balanced_.empty()) unique = index;
  }
  return {index, static_cast<std::uint64_t>((pass * copies_ + copy) * images_ + unique)};
}

BatchPlan::BatchPlan(std::int64_t images, const LoaderOptions& options)
    : epoch_(images, options),
      batch_size_(options.batch_size),
      drop_last_(options.drop_last),
      rows_(rows_of_rank(std::min(batch_size_, epoch_.length()), options.rank, options.ranks)) {}

std::int64_t BatchPlan::batches() const {
  return (epoch_.length() + (drop_last_ ? 0 : batch_size_ - 1)) / batch_size_;
}

std::int64_t BatchPlan::most_rows() const {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(rows_.size()));
}

std::int64_t BatchPlan::rows_of(std::int64_t batch) const {
  const std::int64_t left = epoch_.length() - batch * batch_size_;
  return std::ranges::lower_bound(rows_, left) - rows_.begin();
}

std::int64_t BatchPlan::samples() const {
  return (batches() - 1) * rows_of(0) + rows_of(batches() - 1);
}

PlannedSample BatchPlan::at(std::int64_t batch, std::int64_t row) {
  return epoch_.at(batch * batch_size_ + rows_[static_cast<std::size_t>(row)]);
}

}  // namespace dtn
