// Standard normal numbers that have the same bits on every device, which logf and cosf have not:
// looked up in a table by 16 random bits, half of an entry's chance for each sign. Odd moments are
// 0 by that symmetry and the variance is 1 to float32 rounding, as an entry is the root mean square
// of the normal numbers it stands for; the distribution function is nowhere off by more than 2^-16,
// a deviation that only some 10^10 draws would show, and none lies beyond 4.4.
//
// Plain host/device code: kernels for every device include this header.
#pragma once

#include <bit>
#include <cstdint>

#include "dtn/core/philox.h"

namespace dtn {

inline constexpr int kNormalTableSize = 1 << 15;
// [kNormalTableSize], ascending; made once.
const float* normal_table();

inline constexpr int kNoisePerGroup = 8;
// The random words of elements 8 group .. 8 group + 7 of a sequence of noise.
DTN_HOST_DEVICE inline Philox4 noise_words(std::uint64_t seed, std::uint64_t group) {
  return philox_group({seed, 0x4e4f4953u, 0}, group);  // "NOIS"
}
// Element k of a group, 0 <= k < 8.
DTN_HOST_DEVICE inline float noise_of(const float* table, const Philox4& words, int k) {
  const std::uint32_t bits = words.v[k / 2] >> (k % 2 * 16);
  const auto magnitude = std::bit_cast<std::uint32_t>(table[bits & 0x7fffu]);
  return std::bit_cast<float>(magnitude | (bits & 0x8000u) << 16);
}

// out[i] = element first + i of the sequence `seed`, on the host.
void write_noise(std::uint64_t seed, std::uint64_t first, std::int64_t count, float* out);

}  // namespace dtn
