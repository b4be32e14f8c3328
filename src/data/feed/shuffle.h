// Fisher-Yates shuffle with random numbers that depend only on the key.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dtn/core/philox.h"

namespace dtn {

// Returns a uniform number in [0, bound) from 64 random bits (D. Lemire, "Fast random integer
// generation in an interval", 2019, without the rejection: the bias is below bound / 2^64).
inline std::uint64_t bounded(std::uint32_t low, std::uint32_t high, std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  std::uint64_t random = static_cast<std::uint64_t>(high) << 32 | low;
  return static_cast<std::uint64_t>(static_cast<Wide>(random) * bound >> 64);
}

// Shuffles n places by calls of exchange(i, j), where i may equal j. All orders are equally likely.
// `first` separates shuffles under one key: this one uses the n random numbers from there on.
template <class Exchange>
void shuffle_places(std::size_t n, const PhiloxKey& key, std::uint64_t first, Exchange&& exchange) {
  for (std::size_t i = n; i > 1; --i) {
    const Philox4 words = philox_group(key, first + i - 1);
    exchange(i - 1, static_cast<std::size_t>(bounded(words.v[0], words.v[1], i)));
  }
}

}  // namespace dtn
