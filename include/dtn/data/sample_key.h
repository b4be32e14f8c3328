// Keys of the random numbers of a sample and of a batch. Random numbers depend only on the key, so
// they do not depend on threads, ranks or the step at which a run was resumed.
#pragma once

#include <cstdint>

namespace dtn {

// The random numbers of one sample in one epoch.
struct SampleKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  // Below 2^60. By default the index in the data set. An epoch with several uses of a sample gives
  // each of them another number.
  std::uint64_t sample = 0;
};

// The random numbers of one batch, the same on every rank that has a part of it.
struct BatchKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint64_t batch = 0;  // number in the epoch, below 2^60
};

}  // namespace dtn
