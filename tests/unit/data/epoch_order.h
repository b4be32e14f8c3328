// The order in which an epoch visits its samples, without EpochPlan.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "data/feed/shuffle.h"

namespace dtn {

// Returns the samples of a pass of an epoch over n samples. `repeat` numbers the passes. Runs that
// resume depend on this order, so the key stands here a second time.
inline std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t n,
                                             bool shuffle, int repeat = 0) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!shuffle) return order;
  const PhiloxKey key{seed, 0x53485546 /* "SHUF" */, static_cast<std::uint32_t>(epoch)};
  shuffle_places(order.size(), key, static_cast<std::uint64_t>(repeat * n),
                 [&](std::size_t a, std::size_t b) { std::swap(order[a], order[b]); });
  return order;
}

}  // namespace dtn
