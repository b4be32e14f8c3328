// Test of a dropout mask in integers.
#pragma once

#include <cstdint>

namespace dtn {

// uniform_from_u32(word) >= p if and only if (word >> 8) >= drop_threshold(p), because scaling by a
// power of two is exact. Static, because every instruction set and device compiles its own copy.
static inline std::uint32_t drop_threshold(double p) {
  double scaled = p * 16777216.0;
  auto t = static_cast<std::uint32_t>(scaled);
  return t < scaled ? t + 1 : t;
}

}  // namespace dtn
