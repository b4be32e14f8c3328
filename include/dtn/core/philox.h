// Philox-4x32-10, a counter-based random generator (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011). A value depends only on (seed, stream, step, element). Dropout masks
// and augmentations are therefore the same on any thread, worker or device.
// Plain host/device code: kernels for every device include this header.
#pragma once

#include <cstdint>

#include "dtn/core/host_device.h"

namespace dtn {

// Counter or output of the generator: four 32-bit words.
struct Philox4 {
  std::uint32_t v[4];
};

// Key of one sequence of random numbers. Its elements can be computed in any order.
struct PhiloxKey {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  // consumer: a drop-path layer, the shuffle, ...
  std::uint32_t step = 0;    // optimizer step or epoch
};

// The ten rounds of the generator: four random words from a counter and a 64-bit key.
DTN_HOST_DEVICE inline Philox4 philox_4x32_10(Philox4 counter, std::uint32_t key0,
                                              std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t p0 = static_cast<std::uint64_t>(0xD2511F53u) * counter.v[0];
    std::uint64_t p1 = static_cast<std::uint64_t>(0xCD9E8D57u) * counter.v[2];
    counter = {{static_cast<std::uint32_t>(p1 >> 32) ^ counter.v[1] ^ key0,
                static_cast<std::uint32_t>(p1),
                static_cast<std::uint32_t>(p0 >> 32) ^ counter.v[3] ^ key1,
                static_cast<std::uint32_t>(p0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Four random words, for the elements from 4 group to 4 group + 3.
DTN_HOST_DEVICE inline Philox4 philox_group(const PhiloxKey& key, std::uint64_t group) {
  Philox4 counter{{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
                   key.stream, key.step}};
  return philox_4x32_10(counter, static_cast<std::uint32_t>(key.seed),
                        static_cast<std::uint32_t>(key.seed >> 32));
}

// The random word of an element.
DTN_HOST_DEVICE inline std::uint32_t philox_u32(const PhiloxKey& key, std::uint64_t element) {
  return philox_group(key, element / 4).v[element % 4];
}

// Uniform in [0, 1) with 24 random bits.
DTN_HOST_DEVICE inline float uniform_from_u32(std::uint32_t u) {
  return static_cast<float>(u >> 8) * (1.0f / 16777216.0f);
}
// The uniform number of an element, in [0, 1).
DTN_HOST_DEVICE inline float philox_uniform(const PhiloxKey& key, std::uint64_t element) {
  return uniform_from_u32(philox_u32(key, element));
}

}  // namespace dtn
