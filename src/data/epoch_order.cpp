#include <numeric>
#include <utility>

#include "dtn/core/check.h"
#include "dtn/core/philox.h"
#include "dtn/data/loader.h"

namespace dtn {

namespace {

constexpr std::uint32_t kShuffleStream = 0x53485546;  // "SHUF"

// Uniform in [0, bound) from 64 random bits (D. Lemire, "Fast random integer generation in an
// interval", 2019, without the rejection: the bias is below bound / 2^64).
std::uint64_t bounded(std::uint32_t low, std::uint32_t high, std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  std::uint64_t random = static_cast<std::uint64_t>(high) << 32 | low;
  return static_cast<std::uint64_t>(static_cast<Wide>(random) * bound >> 64);
}

}  // namespace

std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t n,
                                      bool shuffle, std::int64_t repeat) {
  DTN_CHECK(n >= 0 && epoch >= 0 && repeat >= 0, "epoch_order(", epoch, ", ", n, ", ", repeat, ")");
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!shuffle) return order;
  PhiloxKey key{seed, kShuffleStream, static_cast<std::uint32_t>(epoch)};
  std::uint64_t first = static_cast<std::uint64_t>(repeat) * order.size();
  for (std::size_t i = order.size(); i > 1; --i) {
    Philox4 words = philox_group(key, first + i - 1);
    std::swap(order[i - 1], order[bounded(words.v[0], words.v[1], i)]);
  }
  return order;
}

}  // namespace dtn
