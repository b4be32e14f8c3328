// Caching allocator of device memory, see cuda_device.h. Blocks are binned by exact size, because a
// training step asks for the same sizes each time. A block can be reused without waiting, because
// all kernels run in one stream.
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
#include "core/format.h"
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

struct Pool {
  Bins idle;
  int graphs = 0;  // graphs that hold its addresses
};

constexpr int kShared = 0;  // the pool that all may use

struct Cache {
  std::mutex mutex;
  std::map<int, Pool> pools;
  int current = kShared;  // pool that allocations use
  int next_pool = kShared + 1;
  AllocatorStats stats;

  // Returns an idle block for the current pool, or null. An idle block of the shared pool serves as
  // well, and then belongs to the current pool.
  std::byte* take_idle_locked(std::size_t size) {
    for (int pool : {current, kShared}) {
      std::vector<std::byte*>& bin = pools[pool].idle[size];
      if (bin.empty()) continue;
      std::byte* p = bin.back();
      bin.pop_back();
      stats.bytes_cached -= size;
      return p;
    }
    return nullptr;
  }

  void share_locked(Pool& pool) {
    for (auto& [size, blocks] : pool.idle) {
      auto& shared = pools[kShared].idle[size];
      shared.insert(shared.end(), blocks.begin(), blocks.end());
    }
    pool.idle.clear();
  }

  // Returns idle memory to the system, except in pools that a graph holds.
  void empty_locked() {
    DTN_CUDA(cudaStreamSynchronize(compute_stream()));
    for (auto& [id, pool] : pools) {
      if (pool.graphs > 0) continue;
      for (auto& [size, blocks] : pool.idle) {
        for (std::byte* p : blocks) (void)cudaFree(p);
        stats.bytes_cached -= size * blocks.size();
      }
      pool.idle.clear();
    }
  }
};

// Never destroyed: tensors with static lifetime may outlive any static cache.
Cache& cache() {
  static Cache* instance = new Cache;
  return *instance;
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
  // The memory of a destroyed MemoryPool goes to the shared pool.
  auto own = c.pools.find(pool);
  (own == c.pools.end() ? c.pools[kShared] : own->second).idle[size].push_back(p);
  c.stats.bytes_cached += size;
}

// Allocates from the system. When the device is full, returns idle memory and tries once more.
std::byte* from_system_locked(Cache& c, std::size_t size, std::size_t bytes) {
  void* p = nullptr;
  if (cudaMalloc(&p, size) == cudaSuccess) return static_cast<std::byte*>(p);
  (void)cudaGetLastError();
  const bool capturing = is_capturing();
  if (!capturing) {
    c.empty_locked();
    if (cudaMalloc(&p, size) == cudaSuccess) return static_cast<std::byte*>(p);
    (void)cudaGetLastError();
  }
  throw Error(cat("the CUDA device is out of memory",
                  capturing ? " while a step is captured as a graph" : "", ": asked for ",
                  bytes_text(static_cast<double>(bytes)), " with ",
                  bytes_text(static_cast<double>(c.stats.bytes_in_use)), " in use and ",
                  bytes_text(static_cast<double>(c.stats.bytes_cached)),
                  " kept for graphs; use a smaller train.micro_batch or turn on "
                  "train.checkpoint_blocks"));
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
  std::byte* p = cached ? c.take_idle_locked(size) : nullptr;
  if (!p) {
    ++c.stats.misses;
    p = from_system_locked(c, size, bytes);
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

// Moves the idle memory of the pool to the shared pool.
MemoryPool::~MemoryPool() {
  Cache& c = cache();
  std::lock_guard lock(c.mutex);
  c.share_locked(c.pools[id_]);
  c.pools.erase(id_);
}

PoolUse::PoolUse() {
  std::lock_guard lock(cache().mutex);
  pool_ = cache().current;
  if (pool_ != kShared) ++cache().pools[pool_].graphs;
}
PoolUse::~PoolUse() {
  Cache& c = cache();
  std::lock_guard lock(c.mutex);
  const auto found = c.pools.find(pool_);
  if (pool_ == kShared || found == c.pools.end()) return;  // the pool may be gone
  if (--found->second.graphs == 0) c.share_locked(found->second);
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
