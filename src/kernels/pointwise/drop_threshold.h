// The test of a dropout mask in whole numbers.
#pragma once

#include <cstdint>

namespace dtn {

// uniform_from_u32(word) >= p when (word >> 8) >= drop_threshold(p): exactly, since scaling by a
// power of two is. Static, because every instruction set and device compiles its own.
static inline std::uint32_t drop_threshold(double p) {
  double scaled = p * 16777216.0;
  auto t = static_cast<std::uint32_t>(scaled);
  return t < scaled ? t + 1 : t;
}

}  // namespace dtn
