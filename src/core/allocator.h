// Caching allocator. A training step asks for the same sizes each time, so after the second step
// the cache serves every request without the system. Where sizes change, as with sequences of
// different lengths, larger blocks serve smaller requests, and the blocks that have been idle
// longest go back to the system. The process then holds about 1.5 times its peak use, and never
// more than four times that peak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dtn {

struct AllocatorStats {
  std::uint64_t misses = 0;      // requests that went to the system
  std::size_t bytes_in_use = 0;  // requested and not yet released
  std::size_t bytes_cached = 0;  // held for reuse
  std::size_t peak_bytes = 0;    // largest bytes_in_use since the last reset
};

// Allocates `bytes` bytes, 64-byte aligned, uninitialised. The memory returns to the cache when the
// last owner releases it. Thread-safe. When the system refuses, the cache is emptied and the
// request repeated once; then throws dtn::Error naming the size.
std::shared_ptr<std::byte> allocate_cached(std::size_t bytes);

AllocatorStats allocator_stats();
void reset_peak_bytes();
// Returns all cached memory to the system.
void release_cached_memory();

}  // namespace dtn
