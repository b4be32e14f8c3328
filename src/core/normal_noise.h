// Standard normal numbers with the same bits on every device, which logf and cosf do not give. 16
// random bits select a number: 15 an entry of a table, and one its sign. By this symmetry odd
// moments are 0. An entry is the root mean square of the normal numbers that it represents, so the
// variance is 1 to float32 rounding. The error of the distribution function is at most 2^-16, which
// only some 10^10 draws would show. No number lies beyond 4.4.
//
// Plain host/device code: kernels for every device include this header.
#pragma once

#include <bit>
#include <cstdint>

#include "dtn/core/philox.h"

namespace dtn {

inline constexpr int kNormalTableSize = 1 << 15;
// Table of shape [kNormalTableSize], ascending; computed once.
const float* normal_table();

inline constexpr int kNoisePerGroup = 8;
// Random words of elements 8 group .. 8 group + 7 of a noise sequence.
DTN_HOST_DEVICE inline Philox4 noise_words(std::uint64_t seed, std::uint64_t group) {
  return philox_group({seed, 0x4e4f4953u, 0}, group);  // "NOIS"
}
// Element k of a group, 0 <= k < 8.
DTN_HOST_DEVICE inline float noise_of(const float* table, const Philox4& words, int k) {
  const std::uint32_t bits = words.v[k / 2] >> (k % 2 * 16);
  const auto magnitude = std::bit_cast<std::uint32_t>(table[bits & 0x7fffu]);
  return std::bit_cast<float>(magnitude | (bits & 0x8000u) << 16);
}

// Writes out[i] = element first + i of the sequence `seed`, on the host.
void write_noise(std::uint64_t seed, std::uint64_t first, std::int64_t count, float* out);

}  // namespace dtn
