// What names the random numbers of a sample and of a batch. Nothing else influences them, so they
// do not depend on threads, on ranks or on where a run was resumed.
#pragma once

#include <cstdint>

namespace dtn {

// The random numbers of one sample in one epoch.
struct SampleKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint64_t sample = 0;  // index in the data set, below 2^60
};

// The random numbers of one batch, the same for every rank that has a part of it.
struct BatchKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint64_t batch = 0;  // number in the epoch, below 2^60
};

}  // namespace dtn
