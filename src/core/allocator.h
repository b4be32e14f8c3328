// Caching allocator with exact-size bins: a training step asks for the same sizes each time, so
// after the second step every request is served from the cache and the system is left alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dtn {

struct AllocatorStats {
  std::uint64_t misses = 0;      // requests that went to the system
  std::size_t bytes_in_use = 0;  // handed out now
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
