// Converts random words to numbers.
#pragma once

#include <cmath>
#include <cstdint>

namespace dtn {

inline double uniform(std::uint32_t word, double low, double high) {
  return low + (high - low) * (word * 0x1p-32);
}

// Returns an index, 0 .. count-1.
inline int uniform_index(std::uint32_t word, int count) {
  return static_cast<int>(static_cast<std::uint64_t>(word) * static_cast<std::uint32_t>(count) >>
                          32);
}

// Rounds half to even, as Python's round(): the rounding mode is never changed.
inline int round_even(double x) { return static_cast<int>(std::nearbyint(x)); }

}  // namespace dtn
