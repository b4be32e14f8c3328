// Allocator functions for any device.
#pragma once

#include "core/allocator.h"
#include "core/cuda_device.h"
#include "dtn/core/device.h"

namespace dtn {

inline AllocatorStats memory_stats(Device device) {
  return device == kCpu ? allocator_stats() : cuda::allocator_stats();
}

inline void reset_peak_memory(Device device) {
  device == kCpu ? reset_peak_bytes() : cuda::reset_peak_bytes();
}

inline void release_memory(Device device) {
  device == kCpu ? release_cached_memory() : cuda::release_cached_memory();
}

}  // namespace dtn
