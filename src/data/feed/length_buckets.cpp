#include "data/feed/length_buckets.h"

#include <algorithm>
#include <utility>

#include "data/feed/shuffle.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr std::uint32_t kBucketStream = 0x4255434b;  // "BUCK"
constexpr std::size_t kWindowBatches = 100, kMinWindows = 4;
constexpr int kPlaceBits = 24;
constexpr std::int64_t kMaxLength = std::int64_t{1} << 40;

}  // namespace

LengthBuckets::LengthBuckets(std::vector<std::int64_t> lengths, std::int64_t batch_size)
    : lengths_(std::move(lengths)), batch_size_(static_cast<std::size_t>(batch_size)) {
  for (const std::int64_t length : lengths_) {
    DTN_CHECK(0 <= length && length < kMaxLength, "the length ", length,
              " of a sample is not in [0, ", kMaxLength, ")");
  }
  const std::size_t window = std::min(lengths_.size(), kWindowBatches * batch_size_);
  DTN_CHECK(window < std::size_t{1} << kPlaceBits, "batches of ", batch_size_,
            " samples are too large to be formed by length");
  keys_.reserve(window);
  samples_.reserve(window);
}

void LengthBuckets::arrange(std::span<std::int64_t> order, std::uint64_t seed, std::int64_t epoch,
                            std::int64_t pass) {
  // A pass has samples that complete the last batch of the pass before, whole batches, and a rest.
  const std::size_t before = static_cast<std::size_t>(pass) * order.size() % batch_size_;
  const std::size_t begin = (batch_size_ - before) % batch_size_;
  if (begin >= order.size()) return;
  const std::size_t batches = (order.size() - begin) / batch_size_;
  const std::span<std::int64_t> whole = order.subspan(begin, batches * batch_size_);
  // Windows of about equal size.
  const std::size_t windows =
      std::max((batches + kWindowBatches - 1) / kWindowBatches, std::min(batches, kMinWindows));
  for (std::size_t w = 0; w < windows; ++w) {
    const std::size_t first = batches * w / windows, end = batches * (w + 1) / windows;
    sort(whole.subspan(first * batch_size_, (end - first) * batch_size_));
  }
  const PhiloxKey key{seed, kBucketStream, static_cast<std::uint32_t>(epoch)};
  const auto batch = [&](std::size_t i) {
    return whole.begin() + static_cast<std::ptrdiff_t>(i * batch_size_);
  };
  shuffle_places(batches, key, static_cast<std::uint64_t>(pass) * order.size(),
                 [&](std::size_t i, std::size_t j) {
                   if (i != j) std::swap_ranges(batch(i), batch(i + 1), batch(j));
                 });
}

// Sorts by length. Samples of one length stay in their shuffled order.
void LengthBuckets::sort(std::span<std::int64_t> window) {
  samples_.assign(window.begin(), window.end());
  keys_.clear();
  for (std::size_t place = 0; place < window.size(); ++place) {
    const std::int64_t length = lengths_[static_cast<std::size_t>(window[place])];
    keys_.push_back(static_cast<std::uint64_t>(length) << kPlaceBits | place);
  }
  std::ranges::sort(keys_);
  constexpr std::uint64_t kPlaces = (std::uint64_t{1} << kPlaceBits) - 1;
  for (std::size_t i = 0; i < window.size(); ++i) window[i] = samples_[keys_[i] & kPlaces];
}

}  // namespace dtn
