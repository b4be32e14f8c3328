#include "data/feed/balanced_order.h"

#include <algorithm>
#include <numeric>

#include "data/feed/shuffle.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr std::uint32_t kBalancedStream = 0x42414c43;  // "BALC"

}  // namespace

BalancedOrder::BalancedOrder(std::span<const std::int64_t> labels) : samples_(labels.size()) {
  const auto label = [&](std::int64_t i) { return labels[static_cast<std::size_t>(i)]; };
  std::iota(samples_.begin(), samples_.end(), std::int64_t{0});
  std::ranges::stable_sort(samples_, {}, label);
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (i == 0 || label(samples_[i]) != label(samples_[i - 1])) begins_.push_back(i);
  }
  begins_.push_back(samples_.size());
}

void BalancedOrder::draw(std::span<std::int64_t> order, std::uint64_t seed, std::int64_t epoch,
                         std::int64_t pass) const {
  DTN_CHECK(!empty() && order.size() == samples_.size(), order.size(), " places for ",
            samples_.size(), " samples");
  const PhiloxKey key{seed, kBalancedStream, static_cast<std::uint32_t>(epoch)};
  const std::uint64_t first = static_cast<std::uint64_t>(pass) * order.size();
  for (std::size_t place = 0; place < order.size(); ++place) {
    const Philox4 words = philox_group(key, first + place);
    const auto which =
        static_cast<std::size_t>(bounded(words.v[0], words.v[1], begins_.size() - 1));
    const std::size_t begin = begins_[which], count = begins_[which + 1] - begin;
    order[place] =
        samples_[begin + static_cast<std::size_t>(bounded(words.v[2], words.v[3], count))];
  }
}

}  // namespace dtn
