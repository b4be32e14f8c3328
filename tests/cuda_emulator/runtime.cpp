// The runtime of the emulator: memory, streams, events and graphs. Work put into a stream waits
// there until somebody waits for it, as late as a real device might be.
#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using Work = std::function<cudaError_t()>;
using Clock = std::chrono::steady_clock;

// Streams hold on to it: an event may be destroyed while it is still to be reached.
struct EventState {
  CUstream_st* stream = nullptr;  // where it was recorded last
  std::uint64_t recorded = 0;     // times it was put into a stream
  std::uint64_t reached = 0;      // times a stream came to it
  Clock::time_point time;
};
using EventHandle = std::shared_ptr<EventState>;

struct Operation {
  Work work;                     // or
  EventHandle record;            // an event to record, or
  EventHandle wait;              // one to wait for,
  std::uint64_t generation = 0;  // as it was recorded the n-th time
};

}  // namespace

struct CUevent_st {
  EventHandle state = std::make_shared<EventState>();
};

struct CUgraph_st {
  std::vector<Work> work;
};
struct CUgraphExec_st {
  std::vector<Work> work;
};

struct CUstream_st {
  std::deque<Operation> operations;
  std::unique_ptr<CUgraph_st> capture;
  bool draining = false;
};

namespace {

// One lock for everything: the emulator is about order, not speed.
std::recursive_mutex mutex;
std::set<CUstream_st*> streams;
CUstream_st default_stream;
cudaError_t sticky = cudaSuccess;
std::string kernel_error;
std::atomic<std::uint64_t> kernel_count{0};
std::unordered_map<std::byte*, std::size_t> device_blocks, pinned_blocks;

CUstream_st* resolve(cudaStream_t stream) { return stream ? stream : &default_stream; }

cudaError_t fail(cudaError_t error) {
  if (error != cudaSuccess) sticky = error;
  return error;
}

void drain(CUstream_st* stream, const EventState* until = nullptr, std::uint64_t generation = 0);

void wait_for(const EventHandle& event, std::uint64_t generation) {
  if (event->reached < generation) drain(event->stream, event.get(), generation);
}

// Runs what waits in the stream, to its end or until the event has been reached.
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
      op.record->time = Clock::now();
      if (op.record.get() == until && op.record->reached >= generation) break;
    } else {
      wait_for(op.wait, op.generation);
    }
  }
  stream->draining = false;
}

// Fresh device memory is all ones, NaN in every float type, between two guards that are checked
// when it is freed.
constexpr std::size_t kGuard = 256;
constexpr auto kGuardByte = std::byte{0xa5};

cudaError_t take(void** p, std::size_t bytes, std::unordered_map<std::byte*, std::size_t>& blocks) {
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

void synchronize_all() {
  drain(&default_stream);
  for (CUstream_st* s : streams) drain(s);
}

}  // namespace

namespace emu {

cudaError_t enqueue(cudaStream_t stream, Work work) {
  std::lock_guard lock(mutex);
  CUstream_st* s = resolve(stream);
  if (s->capture) {
    s->capture->work.push_back(std::move(work));
  } else {
    s->operations.push_back({std::move(work), nullptr, nullptr, 0});
  }
  return cudaSuccess;
}

std::string last_kernel_error() {
  std::lock_guard lock(mutex);
  return kernel_error;
}

std::uint64_t kernels_run() { return kernel_count; }

cudaError_t launch_bound(cudaStream_t stream, dim3 grid, dim3 block, std::size_t shared_bytes,
                         std::function<void()> kernel) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 ||
      block.x * block.y * block.z == 0 || block.x * block.y * block.z > 1024 ||
      shared_bytes > kSharedMemory) {
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
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
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
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::strcpy(p->name, "emulator");
  p->totalGlobalMem = std::size_t{8} << 30;
  p->sharedMemPerBlockOptin = emu::kSharedMemory;
  p->multiProcessorCount = 4;
  p->major = 9;
  p->l2CacheSize = 32 << 20;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  std::lock_guard lock(mutex);
  synchronize_all();
  return std::exchange(sticky, cudaSuccess);
}

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  std::lock_guard lock(mutex);
  return fail(take(p, bytes, device_blocks));
}
cudaError_t cudaFree(void* p) {
  std::lock_guard lock(mutex);
  synchronize_all();  // as the real one does
  return fail(give_back(p, device_blocks));
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
  std::lock_guard lock(mutex);
  return fail(take(p, bytes, pinned_blocks));
}
cudaError_t cudaFreeHost(void* p) {
  std::lock_guard lock(mutex);
  synchronize_all();
  return fail(give_back(p, pinned_blocks));
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{8} << 30;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  std::lock_guard lock(mutex);
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
  bool pageable = (kind == cudaMemcpyHostToDevice && !is_pinned(from)) ||
                  (kind == cudaMemcpyDeviceToHost && !is_pinned(to));
  if (s->capture) {
    if (pageable) return fail(cudaErrorStreamCaptureUnsupported);
    s->capture->work.push_back(copy);
    return cudaSuccess;
  }
  if (pageable && kind == cudaMemcpyHostToDevice) {  // the real one stages it before it returns
    auto bytes_now = std::make_shared<std::vector<std::byte>>(
        static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
    s->operations.push_back({[=] {
                               if (bytes) std::memcpy(to, bytes_now->data(), bytes);
                               return cudaSuccess;
                             },
                             nullptr, nullptr, 0});
    return cudaSuccess;
  }
  s->operations.push_back({copy, nullptr, nullptr, 0});
  if (pageable) drain(s);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  return emu::enqueue(stream, [=] {
    if (bytes) std::memset(p, value, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  std::lock_guard lock(mutex);
  *stream = new CUstream_st;
  streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  drain(stream);
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::lock_guard lock(mutex);
  CUstream_st* s = resolve(stream);
  if (s->capture) return fail(cudaErrorStreamCaptureUnsupported);
  drain(s);
  return std::exchange(sticky, cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  std::lock_guard lock(mutex);
  CUstream_st* s = resolve(stream);
  if (s->capture) return fail(cudaErrorStreamCaptureUnsupported);  // not needed so far
  const EventHandle& e = event->state;
  if (e->recorded) s->operations.push_back({nullptr, nullptr, e, e->recorded});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::lock_guard lock(mutex);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::lock_guard lock(mutex);
  CUstream_st* s = resolve(stream);
  if (s->capture) return fail(cudaErrorStreamCaptureUnsupported);
  const EventHandle& e = event->state;
  e->stream = s;
  s->operations.push_back({nullptr, e, nullptr, ++e->recorded});
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::lock_guard lock(mutex);
  wait_for(event->state, event->state->recorded);
  return std::exchange(sticky, cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard lock(mutex);
  return event->state->reached < event->state->recorded ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  std::lock_guard lock(mutex);
  const EventState &a = *start->state, &b = *end->state;
  if (a.reached < a.recorded || b.reached < b.recorded) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(b.time - a.time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  std::lock_guard lock(mutex);
  CUstream_st* s = resolve(stream);
  if (s->capture) return fail(cudaErrorStreamCaptureInvalidated);
  s->capture = std::make_unique<CUgraph_st>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  std::lock_guard lock(mutex);
  CUstream_st* s = resolve(stream);
  if (!s->capture) return fail(cudaErrorStreamCaptureInvalidated);
  *graph = s->capture.release();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return emu::enqueue(stream, [exec] {
    for (const Work& work : exec->work) {
      if (cudaError_t error = work(); error != cudaSuccess) return error;
    }
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  std::lock_guard lock(mutex);
  synchronize_all();
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void*, std::size_t* count) {
  *count = graph->work.size();
  return cudaSuccess;
}
