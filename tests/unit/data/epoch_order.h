// The order in which an epoch visits its samples.
#pragma once

#include <cstdint>
#include <vector>

#include "data/feed/epoch_plan.h"

namespace dtn {

// Returns the samples of a pass of an epoch over n samples. `repeat` numbers the passes.
inline std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t n,
                                             bool shuffle, int repeat = 0) {
  LoaderOptions options;
  options.seed = seed;
  options.shuffle = shuffle;
  options.repeats = repeat + 1;
  EpochPlan plan(n, options);
  plan.start(epoch);
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < n; ++i) order.push_back(plan.at(repeat * n + i).index);
  return order;
}

}  // namespace dtn
