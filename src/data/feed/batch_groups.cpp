#include "data/feed/batch_groups.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/feed/shuffle.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr std::uint32_t kGroupStream = 0x47525550;  // "GRUP"
constexpr std::size_t kMaxGroups = 256;

using Counts = std::array<std::size_t, kMaxGroups>;

Counts counts_of(std::span<const std::uint8_t> groups) {
  Counts counts{};
  for (const std::uint8_t group : groups) ++counts[group];
  return counts;
}

}  // namespace

BatchGroups::BatchGroups(std::vector<std::uint8_t> groups, std::int64_t batch_size)
    : groups_(std::move(groups)), batch_size_(static_cast<std::size_t>(batch_size)) {
  order_.resize(static_cast<std::size_t>(pass_length_of(groups_, batch_size)));
}

std::int64_t BatchGroups::pass_length_of(std::span<const std::uint8_t> groups,
                                         std::int64_t batch_size) {
  std::int64_t length = 0;
  for (const std::size_t count : counts_of(groups)) {
    length += (static_cast<std::int64_t>(count) + batch_size - 1) / batch_size * batch_size;
  }
  return length;
}

void BatchGroups::arrange(std::span<const std::int64_t> shuffled, std::uint64_t seed,
                          std::int64_t epoch, std::int64_t pass) {
  DTN_CHECK(shuffled.size() == groups_.size(), shuffled.size(), " samples for ", groups_.size(),
            " groups");
  const Counts counts = counts_of(groups_);
  Counts next{};  // place of each group's next sample
  std::size_t begin = 0;
  for (std::size_t group = 0; group < kMaxGroups; ++group) {
    next[group] = begin;
    begin += (counts[group] + batch_size_ - 1) / batch_size_ * batch_size_;
  }
  const Counts first = next;
  for (const std::int64_t sample : shuffled) {
    order_[next[groups_[static_cast<std::size_t>(sample)]]++] = sample;
  }
  for (std::size_t group = 0; group < kMaxGroups; ++group) {
    const std::size_t end = group + 1 < kMaxGroups ? first[group + 1] : order_.size();
    for (std::size_t i = next[group]; i < end; ++i) order_[i] = order_[i - counts[group]];
  }
  const PhiloxKey key{seed, kGroupStream, static_cast<std::uint32_t>(epoch)};
  const auto batch = [&](std::size_t i) {
    return order_.begin() + static_cast<std::ptrdiff_t>(i * batch_size_);
  };
  shuffle_places(order_.size() / batch_size_, key, static_cast<std::uint64_t>(pass) * order_.size(),
                 [&](std::size_t i, std::size_t j) {
                   if (i != j) std::swap_ranges(batch(i), batch(i + 1), batch(j));
                 });
}

}  // namespace dtn
