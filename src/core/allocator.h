// Caching allocator: a training step asks for the same sizes each time, so after the second step
// every request is served from the cache and the system is left alone. Where sizes change, as with
// sequences of different lengths, larger blocks serve smaller requests, and what has lain idle for
// longest goes back to the system: the process holds about half as much again as it ever had in use,
// and never more than four times that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dtn {

struct AllocatorStats {
  std::uint64_t misses = 0;      // requests that went to the system
  std::size_t bytes_in_use = 0;  // asked for and not yet let go
  std::size_t bytes_cached = 0;  // held for reuse
  std::size_t peak_bytes = 0;    // largest bytes_in_use since the last reset
};

// Memory of `bytes` bytes, 64-byte aligned, uninitialised. It returns to the cache when the last
// owner lets go. Thread-safe. When the system refuses, the cache is emptied and the request
// repeated once; then throws dtn::Error naming the size.
std::shared_ptr<std::byte> allocate_cached(std::size_t bytes);

AllocatorStats allocator_stats();
void reset_peak_bytes();
// Gives all cached memory back to the system.
void release_cached_memory();

}  // namespace dtn
