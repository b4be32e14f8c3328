// The caching allocator of device memory, see cuda_device.h. Exact-size bins: a training step asks
// for the same sizes each time. Reuse needs no waiting, because all kernels run in one stream.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/cuda_device.h"
#include "core/cuda_stream.h"
#include "cuda/check.h"
#include "cuda/streams.h"

namespace dtn::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

bool& caching() {
  static bool on = [] {
    const char* text = std::getenv("DTN_CUDA_CACHE");
    return !text || std::strcmp(text, "0") != 0;
  }();
  return on;
}

std::size_t& spare_memory_limit() {
  static std::size_t limit = device_info().total_bytes / 2;
  return limit;
}

using Bins = std::unordered_map<std::size_t, std::vector<std::byte*>>;

struct Cache {
  std::mutex mutex;
  std::map<int, Bins> pools;  // 0 is everybody's
  int current = 0;            // where memory is taken from
  int next_pool = 1;
  AllocatorStats stats;

  // Pools of graphs are left alone: a graph holds their addresses.
  void empty_locked() {
    DTN_CUDA(cudaStreamSynchronize(compute_stream()));
    for (auto& [size, blocks] : pools[0]) {
      for (std::byte* p : blocks) (void)cudaFree(p);
      stats.bytes_cached -= size * blocks.size();
      blocks.clear();
    }
  }
};

// Never destroyed: tensors with static lifetime may outlive any static cache.
Cache& cache() {
  static Cache* instance = new Cache;
  return *instance;
}

// Then the device cannot be waited for, and memory that a graph may use must not be given back.
bool is_capturing() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(compute_stream(), &status) == cudaSuccess &&
         status != cudaStreamCaptureStatusNone;
}

void give_back(std::byte* p, std::size_t size, int pool, bool cached) {
  Cache& c = cache();
  std::lock_guard lock(c.mutex);
  c.stats.bytes_in_use -= size;
  if (!cached) {
    use_device();
    (void)cudaFree(p);
    return;
  }
  auto own = c.pools.find(pool);  // gone when its MemoryPool is: then it is everybody's
  (own == c.pools.end() ? c.pools[0] : own->second)[size].push_back(p);
  c.stats.bytes_cached += size;
}

}  // namespace

bool is_caching() { return caching(); }
void set_caching(bool on) { caching() = on; }

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  use_device();
  std::size_t size = std::max<std::size_t>(bytes, 1);
  bool cached = caching();
  if (cached) size = (size + kAlignment - 1) / kAlignment * kAlignment;
  Cache& c = cache();
  std::lock_guard lock(c.mutex);
  int pool = c.current;
  std::byte* p = nullptr;
  std::vector<std::byte*>& bin = c.pools[pool][size];
  if (cached && !bin.empty()) {
    p = bin.back();
    bin.pop_back();
    c.stats.bytes_cached -= size;
  } else {
    ++c.stats.misses;
    void* raw = nullptr;
    if (cudaMalloc(&raw, size) != cudaSuccess) {
      (void)cudaGetLastError();
      if (is_capturing()) {
        throw Error(
            cat("the CUDA device is out of memory while a step is recorded as a graph: "
                "asked for ",
                bytes, " bytes with ", c.stats.bytes_in_use,
                " in use; use a smaller train.micro_batch or turn on "
                "train.checkpoint_blocks"));
      }
      c.empty_locked();
      if (cudaMalloc(&raw, size) != cudaSuccess) {
        (void)cudaGetLastError();
        throw Error(cat("the CUDA device is out of memory: asked for ", bytes, " bytes with ",
                        c.stats.bytes_in_use,
                        " in use; use a smaller train.micro_batch or turn on "
                        "train.checkpoint_blocks"));
      }
    }
    p = static_cast<std::byte*>(raw);
  }
  c.stats.bytes_in_use += size;
  c.stats.peak_bytes = std::max(c.stats.peak_bytes, c.stats.bytes_in_use);
  return {p, [size, pool, cached](std::byte* q) { give_back(q, size, pool, cached); }};
}

AllocatorStats allocator_stats() {
  std::lock_guard lock(cache().mutex);
  return cache().stats;
}

void reset_peak_bytes() {
  std::lock_guard lock(cache().mutex);
  cache().stats.peak_bytes = cache().stats.bytes_in_use;
}

void release_cached_memory() {
  std::lock_guard lock(cache().mutex);
  cache().empty_locked();
}

bool has_spare_memory(std::size_t bytes) {
  return allocator_stats().bytes_in_use + bytes <= spare_memory_limit();
}
void set_spare_memory_limit(std::size_t limit) { spare_memory_limit() = limit; }

std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) {
  use_device();
  void* p = nullptr;
  DTN_CUDA(cudaMallocHost(&p, std::max<std::size_t>(bytes, 1)));
  return {static_cast<std::byte*>(p), [](std::byte* q) {
            use_device();
            (void)cudaFreeHost(q);
          }};
}

MemoryPool::MemoryPool() {
  std::lock_guard lock(cache().mutex);
  id_ = cache().next_pool++;
}

// What the pool holds becomes everybody's.
MemoryPool::~MemoryPool() {
  Cache& c = cache();
  std::lock_guard lock(c.mutex);
  for (auto& [size, blocks] : c.pools[id_]) {
    auto& shared = c.pools[0][size];
    shared.insert(shared.end(), blocks.begin(), blocks.end());
  }
  c.pools.erase(id_);
}

MemoryPool::Scope::Scope(MemoryPool& pool) {
  std::lock_guard lock(cache().mutex);
  previous_ = std::exchange(cache().current, pool.id_);
}
MemoryPool::Scope::~Scope() {
  std::lock_guard lock(cache().mutex);
  cache().current = previous_;
}

}  // namespace dtn::cuda
