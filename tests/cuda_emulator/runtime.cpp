// Runtime of the emulator: memory, streams, events and graphs. Work in a stream runs only when
// something waits for it, as late as it could on a real device.
#include "runtime.h"

#include <atomic>
#include <cstdlib>
#include <set>
#include <unordered_map>
#include <utility>

namespace {

using namespace emu;

std::set<CUstream_st*> streams;
CUstream_st default_stream;
cudaError_t sticky = cudaSuccess;
std::string kernel_error;
std::atomic<std::uint64_t> kernel_count{0};
std::atomic<bool> high_priority_at_once{false};
std::unordered_map<std::byte*, std::size_t> device_blocks, pinned_blocks;

// Every thread begins on device 0. One process uses one device here, so a thread on another device
// has not selected the right one, and would place its requests on the wrong device.
thread_local int thread_device = 0;
std::atomic<int> process_device{-1};

bool on_wrong_device() {
  int expected = -1;
  process_device.compare_exchange_strong(expected, thread_device);
  return process_device != thread_device;
}

int devices() {
  static const int count = [] {
    const char* text = std::getenv("DTN_EMULATOR_DEVICES");
    return text ? std::atoi(text) : 8;
  }();
  return count;
}

// Ten times the major number, plus the minor number.
int capability_of(int device) { return device < emu::device_model().old_devices ? 75 : 90; }

void drain(CUstream_st* stream, const EventState* until = nullptr, std::uint64_t generation = 0);

void wait_for(const EventHandle& event, std::uint64_t generation) {
  if (event->reached < generation) drain(event->stream, event.get(), generation);
}

// Runs the work of the stream, to its end or until the event is reached.
void drain(CUstream_st* stream, const EventState* until, std::uint64_t generation) {
  if (!stream || stream->draining) return;
  stream->draining = true;
  while (!stream->operations.empty()) {
    Operation op = std::move(stream->operations.front());
    stream->operations.pop_front();
    if (op.work) {
      fail(op.work());
    } else if (op.record) {
      op.record->reached = std::max(op.record->reached, op.generation);
      op.record->time = std::chrono::steady_clock::now();
      if (op.record.get() == until && op.record->reached >= generation) break;
    } else {
      wait_for(op.wait, op.generation);
    }
  }
  stream->draining = false;
}

// New device memory is all ones, which is NaN in every float type. It lies between two guards,
// which are checked when it is freed.
constexpr std::size_t kGuard = 256;
constexpr auto kGuardByte = std::byte{0xa5};

cudaError_t take(void** p, std::size_t bytes, std::unordered_map<std::byte*, std::size_t>& blocks) {
  if (on_wrong_device()) return cudaErrorInvalidResourceHandle;
  auto* raw =
      static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 2 * kGuard + 255) / 256 * 256));
  if (!raw) return cudaErrorMemoryAllocation;
  std::memset(raw, static_cast<int>(kGuardByte), bytes + 2 * kGuard);
  std::memset(raw + kGuard, 0xff, bytes);
  blocks[raw + kGuard] = bytes;
  *p = raw + kGuard;
  return cudaSuccess;
}

bool guards_intact(const std::byte* p, std::size_t bytes) {
  for (std::size_t i = 0; i < kGuard; ++i) {
    if (p[-1 - static_cast<std::ptrdiff_t>(i)] != kGuardByte || p[bytes + i] != kGuardByte) {
      return false;
    }
  }
  return true;
}

cudaError_t give_back(void* p, std::unordered_map<std::byte*, std::size_t>& blocks) {
  if (!p) return cudaSuccess;
  if (on_wrong_device()) return cudaErrorInvalidResourceHandle;
  auto found = blocks.find(static_cast<std::byte*>(p));
  if (found == blocks.end()) return cudaErrorInvalidValue;
  bool intact = guards_intact(found->first, found->second);
  std::free(found->first - kGuard);
  blocks.erase(found);
  if (!intact) kernel_error = "a kernel wrote outside of its memory";
  return intact ? cudaSuccess : cudaErrorIllegalAddress;
}

bool is_device(const void* p) {
  for (const auto& [begin, bytes] : device_blocks) {
    if (p >= begin && p < begin + bytes + kGuard) return true;
  }
  return false;
}
bool is_pinned(const void* p) {
  for (const auto& [begin, bytes] : pinned_blocks) {
    if (p >= begin && p < begin + bytes) return true;
  }
  return false;
}

}  // namespace

namespace emu {

std::recursive_mutex& runtime_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

CUstream_st* resolve(cudaStream_t stream) { return stream ? stream : &default_stream; }

cudaError_t fail(cudaError_t error) {
  if (error != cudaSuccess) sticky = error;
  return error;
}

void synchronize_all() {
  drain(&default_stream);
  for (CUstream_st* s : streams) drain(s);
}

void progress() {
  std::lock_guard lock(runtime_mutex());
  synchronize_all();
}

void run_high_priority_at_once(bool on) { high_priority_at_once = on; }

int current_device() { return thread_device; }

bool owns_device_memory(const void* p, std::size_t bytes) {
  std::lock_guard lock(runtime_mutex());
  for (const auto& [begin, size] : device_blocks) {
    const auto* at = static_cast<const std::byte*>(p);
    if (at >= begin && at + bytes <= begin + size) return true;
  }
  return false;
}

cudaError_t enqueue(cudaStream_t stream, Work work) {
  std::lock_guard lock(runtime_mutex());
  if (on_wrong_device()) return fail(cudaErrorInvalidResourceHandle);
  CUstream_st* s = resolve(stream);
  if (s->capture) {
    capture_work(*s, std::move(work));
  } else {
    s->operations.push_back({std::move(work), nullptr, nullptr, 0});
    if (high_priority_at_once && s->high_priority) drain(s);
  }
  return cudaSuccess;
}

std::string last_kernel_error() {
  std::lock_guard lock(runtime_mutex());
  return kernel_error;
}

std::uint64_t kernels_run() { return kernel_count; }

cudaError_t launch_bound(cudaStream_t stream, dim3 grid, dim3 block, std::size_t shared_bytes,
                         std::function<void()> kernel) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 ||
      block.x * block.y * block.z == 0 || block.x * block.y * block.z > 1024 ||
      shared_bytes > device_model().shared_memory) {
    return cudaErrorInvalidValue;
  }
  return enqueue(stream, [=, kernel = std::move(kernel)] {
    std::string error = run_kernel(grid, block, shared_bytes, kernel);
    ++kernel_count;
    if (error.empty()) return cudaSuccess;
    kernel_error = error;
    return cudaErrorLaunchFailure;
  });
}

}  // namespace emu

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorNoKernelImageForDevice: return "cudaErrorNoKernelImageForDevice";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
    default: return "cudaErrorOther";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  static thread_local std::string text;
  text = cudaGetErrorName(error);
  if (!kernel_error.empty()) text += ": " + kernel_error;
  return text.c_str();
}
cudaError_t cudaGetLastError() { return std::exchange(sticky, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return sticky; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return fail(cudaErrorInvalidDevice);
  thread_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = thread_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device < 0 || device >= devices()) return fail(cudaErrorInvalidDevice);
  *p = {};
  std::strcpy(p->name, "emulator");
  p->totalGlobalMem = emu::device_model().memory;
  p->sharedMemPerBlockOptin = emu::device_model().shared_memory;
  p->multiProcessorCount = 4;
  p->major = capability_of(device) / 10;
  p->minor = capability_of(device) % 10;
  p->l2CacheSize = 32 << 20;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= devices()) return fail(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = capability_of(device) / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = capability_of(device) % 10; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(emu::device_model().shared_memory);
      break;
    default: return fail(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  std::lock_guard lock(runtime_mutex());
  synchronize_all();
  return std::exchange(sticky, cudaSuccess);
}

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  std::lock_guard lock(runtime_mutex());
  std::size_t taken = bytes;
  for (const auto& [block, size] : device_blocks) taken += size;
  if (taken > emu::device_model().memory) return fail(cudaErrorMemoryAllocation);
  return fail(take(p, bytes, device_blocks));
}
cudaError_t cudaFree(void* p) {
  std::lock_guard lock(runtime_mutex());
  synchronize_all();  // as the real cudaFree does
  return fail(give_back(p, device_blocks));
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
  std::lock_guard lock(runtime_mutex());
  return fail(take(p, bytes, pinned_blocks));
}
cudaError_t cudaFreeHost(void* p) {
  std::lock_guard lock(runtime_mutex());
  synchronize_all();
  return fail(give_back(p, pinned_blocks));
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{8} << 30;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  std::lock_guard lock(runtime_mutex());
  CUstream_st* s = resolve(stream);
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (bytes && (is_device(to) != to_device || is_device(from) != from_device)) {
    return fail(cudaErrorInvalidValue);
  }
  auto copy = [=] {
    if (bytes) std::memcpy(to, from, bytes);
    return cudaSuccess;
  };
  // Memory that is not page-locked is read as late as other memory, since nothing promises an
  // earlier read. A graph keeps its address. Copies to this memory are complete when the call
  // returns.
  if (s->capture) {
    capture_work(*s, copy);
    return cudaSuccess;
  }
  s->operations.push_back({copy, nullptr, nullptr, 0});
  if (kind == cudaMemcpyDeviceToHost && !is_pinned(to)) drain(s);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  std::lock_guard lock(runtime_mutex());
  attributes->type = is_device(p)   ? cudaMemoryTypeDevice
                     : is_pinned(p) ? cudaMemoryTypeHost
                                    : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  return emu::enqueue(stream, [=] {
    if (bytes) std::memset(p, value, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  std::lock_guard lock(runtime_mutex());
  if (on_wrong_device()) return fail(cudaErrorInvalidResourceHandle);
  *stream = new CUstream_st;
  streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  cudaError_t error = cudaStreamCreateWithFlags(stream, flags);
  if (error == cudaSuccess) (*stream)->high_priority = priority < 0;
  return error;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::lock_guard lock(runtime_mutex());
  drain(stream);
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::lock_guard lock(runtime_mutex());
  CUstream_st* s = resolve(stream);
  if (s->capture) return fail(cudaErrorStreamCaptureUnsupported);
  drain(s);
  return std::exchange(sticky, cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  std::lock_guard lock(runtime_mutex());
  CUstream_st* s = resolve(stream);
  const EventHandle& e = event->state;
  if (s->capture || e->capture) return fail(capture_wait(*s, *e));
  if (e->recorded) s->operations.push_back({nullptr, nullptr, e, e->recorded});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (on_wrong_device()) return fail(cudaErrorInvalidResourceHandle);
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::lock_guard lock(runtime_mutex());
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::lock_guard lock(runtime_mutex());
  if (on_wrong_device()) return fail(cudaErrorInvalidResourceHandle);
  CUstream_st* s = resolve(stream);
  const EventHandle& e = event->state;
  e->capture.reset();
  if (s->capture) {
    capture_record(*s, *e);
    return cudaSuccess;
  }
  e->stream = s;
  s->operations.push_back({nullptr, e, nullptr, ++e->recorded});
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::lock_guard lock(runtime_mutex());
  if (event->state->capture) return fail(cudaErrorCapturedEvent);
  wait_for(event->state, event->state->recorded);
  return std::exchange(sticky, cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard lock(runtime_mutex());
  if (event->state->capture) return fail(cudaErrorCapturedEvent);
  return event->state->reached < event->state->recorded ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  std::lock_guard lock(runtime_mutex());
  const EventState &a = *start->state, &b = *end->state;
  if (a.reached < a.recorded || b.reached < b.recorded) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(b.time - a.time).count();
  return cudaSuccess;
}
