// The CUDA device of this process: whether there is one, its memory, and how bytes move. A program
// linked without the CUDA backend gets the same functions; they throw ConfigError, or say no.
//
// One process uses one device, through one stream for computing, one for copying batches ahead and
// one for what it exchanges with the other processes of a job.
// Unless a function says otherwise it enqueues and returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/allocator.h"

namespace dtn::cuda {

// What this program was built with, for people: for instance "CUDA 13.0" or "no CUDA".
std::string toolkit();
// Empty when this process sees a CUDA device of the capability that this program needs; otherwise
// one sentence saying why not.
std::string unavailable_reason();
// The devices of that capability, by the driver's numbers.
std::vector<int> usable_devices();
// Selects the device for the process, by the driver's number, before anything else uses one;
// without this call the first usable one is taken. Throws ConfigError when it cannot be used, and
// when this program has no code for it.
void select_device(int index);

// Lets float32 products round their operands to tf32, three decimal digits, which tensor cores
// multiply several times faster. Off until asked for.
void allow_tf32(bool on);

struct DeviceInfo {
  std::string name;
  int multiprocessors = 0;
  int major = 0, minor = 0;  // compute capability
  std::size_t total_bytes = 0;
};
DeviceInfo device_info();

// Device memory of `bytes` bytes from a caching allocator, 256-byte aligned, uninitialised. It may
// be let go while kernels that use it are still waiting: what reuses it comes later in the stream.
// Throws Error naming the size when the device is full. With DTN_CUDA_CACHE=0 in the environment
// every request goes to the driver at its exact size, so that a memory checker sees its end.
std::shared_ptr<std::byte> allocate(std::size_t bytes);
bool is_caching();
void set_caching(bool on);
AllocatorStats allocator_stats();
void reset_peak_bytes();
void release_cached_memory();
// Whether a forward pass may keep `bytes` that a backward pass could compute again: whether no more
// than `limit` bytes are in use then, by default half of the device's memory.
bool has_spare_memory(std::size_t bytes);
void set_spare_memory_limit(std::size_t limit);

// Page-locked host memory, the only kind that copies run beside kernels.
std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes);

// In the order of the computing stream. Host memory that is not page-locked is done with when the
// call returns, for which a copy to the device waits until it has run; page-locked memory must be
// left alone until then. While a graph is captured, memory that is not page-locked is an error: the
// graph would read and write it at every replay, when it may be gone.
void copy_to_device(void* to, const void* from, std::size_t bytes);
void copy_to_host(void* to, const void* from, std::size_t bytes);
void copy_on_device(void* to, const void* from, std::size_t bytes);
void fill_with_zero(void* to, std::size_t bytes);

// Waits until everything enqueued has run; throws Error naming what failed.
void synchronize();

// A named stretch of host time in NVIDIA's profilers.
class TraceRange {
 public:
  explicit TraceRange(const char* name);
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace dtn::cuda
