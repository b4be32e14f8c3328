#include "tasks/boxes/sample_boxes.h"

#include <algorithm>

#include "data/feed/shuffle.h"
#include "tasks/boxes/assignment.h"

namespace dtn {
namespace {

constexpr std::uint32_t kSampleStream = 0x0b0c5a3e;      // consumer of the random numbers
constexpr std::uint64_t kPositives = 0, kNegatives = 1;  // kinds of boxes

// Two 32-bit numbers are used for each draw; a kind, a stage and a sample have 2^25 draws.
constexpr int kDrawBits = 25;

// Moves a random choice of `count` to the front and cuts off the rest, by the first steps of a
// Fisher-Yates shuffle.
void keep_random(std::vector<std::int64_t>& boxes, std::int64_t count, const SampleKey& key,
                 std::uint32_t stream, std::uint64_t kind) {
  const std::size_t n = boxes.size(), m = std::min(n, static_cast<std::size_t>(count));
  const PhiloxKey random{key.seed, stream, key.epoch};
  const std::uint64_t first = (key.sample * 2 + kind) << kDrawBits;
  for (std::size_t i = 0; i < m && m < n; ++i) {
    const Philox4 words = philox_group(random, first + i);
    std::swap(boxes[i],
              boxes[i + static_cast<std::size_t>(bounded(words.v[0], words.v[1], n - i))]);
  }
  boxes.resize(m);
  std::sort(boxes.begin(), boxes.end());
}

}  // namespace

BoxSample sample_boxes(std::span<const std::int32_t> assigned, const BoxSampling& sampling,
                       const SampleKey& key, SampledStage stage) {
  BoxSample sample;
  for (std::size_t i = 0; i < assigned.size(); ++i) {
    if (assigned[i] == kIgnoredBox) continue;
    auto& kind = assigned[i] == kBackgroundBox ? sample.negative : sample.positive;
    kind.push_back(static_cast<std::int64_t>(i));
  }
  const std::uint32_t stream = kSampleStream + static_cast<std::uint32_t>(stage);
  const std::int64_t most = std::min(sampling.positive, sampling.total);
  keep_random(sample.positive, most, key, stream, kPositives);
  const std::int64_t rest = sampling.total - static_cast<std::int64_t>(sample.positive.size());
  keep_random(sample.negative, rest, key, stream, kNegatives);
  return sample;
}

}  // namespace dtn
