// Philox words of several groups at a time, one group per 64-bit lane. The numbers equal those of
// core/philox.h.
#pragma once

#include <cstdint>

#include "dtn/core/philox.h"
#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

using VecU64 = Vec<std::uint64_t>;
inline constexpr int kPhiloxGroups = kLanes<std::uint64_t>;

// Returns the products of the low halves of the lanes.
inline VecU64 multiply_low(VecU64 a, VecU64 b) {
#if defined(DTN_ISA_avx512)
  return (VecU64)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(DTN_ISA_avx2)
  return (VecU64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

// Computes c: the low half of lane k of c[j] is word j of group `group + k`. The high halves are
// undefined.
inline void philox_lanes(const PhiloxKey& key, std::uint64_t group, VecU64 (&c)[4]) {
  for (int i = 0; i < kPhiloxGroups; ++i) c[0][i] = group + static_cast<std::uint64_t>(i);
  c[1] = c[0] >> 32;
  c[2] = broadcast<std::uint64_t>(key.stream);
  c[3] = broadcast<std::uint64_t>(key.step);
  std::uint32_t key0 = static_cast<std::uint32_t>(key.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(key.seed >> 32);
  const VecU64 m0 = broadcast<std::uint64_t>(0xD2511F53u);
  const VecU64 m1 = broadcast<std::uint64_t>(0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    const VecU64 p0 = multiply_low(c[0], m0), p1 = multiply_low(c[2], m1);
    c[0] = (p1 >> 32) ^ c[1] ^ static_cast<std::uint64_t>(key0);
    c[2] = (p0 >> 32) ^ c[3] ^ static_cast<std::uint64_t>(key1);
    c[1] = p1;
    c[3] = p0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

}  // namespace dtn::DTN_ISA
