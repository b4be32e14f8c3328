// Dropout of attention's weights: each weight becomes 0 with probability p and is otherwise
// multiplied by 1 / (1 - p). The mask is generated where it is needed, again in the backward pass,
// and is never stored.
#pragma once

#include <cstdint>

#include "dtn/core/host_device.h"
#include "dtn/core/philox.h"

namespace dtn {

struct AttentionDropout {
  double p = 0;  // 0: none
  PhiloxKey key{};
  const std::uint32_t* step = nullptr;  // replaces key.step, see Rng::device_step
  // Samples are numbered as in the global batch, see Rng.
  std::uint64_t first_sample = 0;
  const std::int64_t* rows = nullptr;

  explicit operator bool() const { return p > 0; }
  double kept() const { return 1 / (1 - p); }
  DTN_HOST_DEVICE std::uint64_t row(std::int64_t sample) const {
    return rows ? static_cast<std::uint64_t>(rows[sample])
                : first_sample + static_cast<std::uint64_t>(sample);
  }
};

// The Philox group of a weight; the weight uses word (query % 4) of the group. The group does not
// depend on the number of tokens, which is at most 2^20.
DTN_HOST_DEVICE inline std::uint64_t attention_drop_group(std::uint64_t row, std::int64_t heads,
                                                          std::int64_t head, std::int64_t query,
                                                          std::int64_t key) {
  const std::uint64_t item =
      row * static_cast<std::uint64_t>(heads) + static_cast<std::uint64_t>(head);
  return item << 40 | static_cast<std::uint64_t>(query / 4) << 20 | static_cast<std::uint64_t>(key);
}
inline constexpr std::int64_t kMaxDropoutTokens = std::int64_t{1} << 20;

}  // namespace dtn
