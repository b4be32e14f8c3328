// The CUDA device of this process: availability, memory and copies. A program linked without the
// CUDA backend gets the same functions; they throw ConfigError, or report that there is no device.
//
// One process uses one device, through three streams: one computes, one copies batches ahead, and
// one exchanges data with the other processes of a job. A function enqueues its work and returns,
// unless its comment says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/allocator.h"

namespace dtn::cuda {

// CUDA version of this build, as text for people: "CUDA 13.0" or "no CUDA".
std::string toolkit();
// Returns an empty string if this process sees a CUDA device of the compute capability that this
// program needs; otherwise one sentence with the reason.
std::string unavailable_reason();
// Returns the devices of that capability, by the driver's numbers.
std::vector<int> usable_devices();
// Selects the device for the process, by the driver's number. Call it before any other function
// uses a device; without this call the first usable device is taken. Throws ConfigError if the
// device cannot be used, or if this program has no code for it.
void select_device(int index);

// Lets float32 products round their operands to tf32 (three decimal digits), which tensor cores
// multiply several times faster. Off by default.
void allow_tf32(bool on);

struct DeviceInfo {
  std::string name;
  int multiprocessors = 0;
  int major = 0, minor = 0;  // compute capability
  std::size_t total_bytes = 0;
};
DeviceInfo device_info();

// Allocates `bytes` bytes of device memory from a caching allocator, 256-byte aligned,
// uninitialised. It may be released while kernels that use it are still waiting: its next user
// comes later in the stream. Throws Error naming the size when the device is full. With
// DTN_CUDA_CACHE=0 in the environment every request goes to the driver at its exact size, so that a
// memory checker detects accesses beyond the end.
std::shared_ptr<std::byte> allocate(std::size_t bytes);
bool is_caching();
void set_caching(bool on);
AllocatorStats allocator_stats();
void reset_peak_bytes();
void release_cached_memory();
// Returns true if a forward pass may keep `bytes` bytes that a backward pass could recompute: if no
// more than `limit` bytes are then in use. The default limit is half of the device's memory.
bool has_spare_memory(std::size_t bytes);
void set_spare_memory_limit(std::size_t limit);

// Page-locked host memory. Only copies from and to it run in parallel with kernels.
std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes);

// Copies in the order of the computing stream. Pageable host memory is no longer used when the call
// returns; for this, a copy from it to the device waits until it has run. Page-locked memory must
// stay untouched until the copy has run. While a graph is captured, pageable memory is an error:
// each replay of the graph would access it, and it may be freed by then.
void copy_to_device(void* to, const void* from, std::size_t bytes);
void copy_to_host(void* to, const void* from, std::size_t bytes);
void copy_on_device(void* to, const void* from, std::size_t bytes);
void fill_with_zero(void* to, std::size_t bytes);

// Waits until everything enqueued has run; throws Error naming what failed.
void synchronize();

// A named range of host time in NVIDIA's profilers.
class TraceRange {
 public:
  explicit TraceRange(const char* name);
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace dtn::cuda
