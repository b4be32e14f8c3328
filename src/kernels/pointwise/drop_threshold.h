// Parts of the masks of dropout and drop path. The functions are static, because every instruction
// set and device compiles its own copy.
#pragma once

#include "dtn/core/philox.h"

namespace dtn {

// Returns the key with the step of a captured graph; null: the key itself.
static inline DTN_HOST_DEVICE PhiloxKey key_at_step(PhiloxKey key, const std::uint32_t* step) {
  if (step) key.step = *step;
  return key;
}

// uniform_from_u32(word) >= p if and only if (word >> 8) >= drop_threshold(p), because scaling by a
// power of two is exact.
static inline std::uint32_t drop_threshold(double p) {
  double scaled = p * 16777216.0;
  auto t = static_cast<std::uint32_t>(scaled);
  return t < scaled ? t + 1 : t;
}

}  // namespace dtn
