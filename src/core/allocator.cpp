#include "core/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "core/format.h"
#include "dtn/core/check.h"

// AddressSanitizer poisons idle blocks and the unused end of a block in use.
#if defined(__has_feature)
#define DTN_CLANG_ASAN __has_feature(address_sanitizer)
#else
#define DTN_CLANG_ASAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || DTN_CLANG_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, size) ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(p, size) ((void)0)
#endif

namespace dtn {
namespace {

constexpr std::size_t kAlignment = 64;
// Blocks of at least kManyPages ask for huge pages, which need 512 times fewer TLB entries. This
// helps where cores compete for memory: two processes that train ViT-S* side by side take 4 %
// longer per step without huge pages, 2 % with them.
constexpr std::size_t kHugePage = std::size_t{2} << 20, kManyPages = 2 * kHugePage;

// Largest block that serves a request: at most a fourth larger, or up to four times the request
// when the process may hold no more memory. The shortest sequences of a task have a fourth of the
// tokens of its longest, so in the end all lengths share the blocks of the longest.
std::size_t loosest_fit(std::size_t size) { return size + size / 4; }
std::size_t loosest_fit_when_full(std::size_t size) { return std::min(size, SIZE_MAX / 4) * 4; }

std::size_t rounded(std::size_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

// Returns null when the system refuses.
std::byte* allocate_from_system(std::size_t size) {
  const bool huge = size >= kManyPages;
  void* p = nullptr;
  if (posix_memalign(&p, huge ? kHugePage : kAlignment, size) != 0) return nullptr;
  if (huge) (void)madvise(p, size / kHugePage * kHugePage, MADV_HUGEPAGE);  // best effort
  return static_cast<std::byte*>(p);
}

// Idle blocks, ordered by size and by age.
class IdleBlocks {
 public:
  std::size_t bytes() const { return bytes_; }
  bool empty() const { return by_age_.empty(); }

  void put(std::byte* p, std::size_t capacity) {
    ASAN_POISON_MEMORY_REGION(p, capacity);
    by_age_.emplace(next_age_, by_size_.emplace(capacity, Block{p, next_age_}));
    ++next_age_;
    bytes_ += capacity;
  }

  struct Taken {
    std::byte* p = nullptr;
    std::size_t capacity = 0;
  };
  // Returns the smallest block of at least `size` and at most `most` bytes, or null. Of blocks of
  // equal size it returns the last used, which may still be in the processor's cache.
  Taken take(std::size_t size, std::size_t most) {
    auto found = by_size_.lower_bound(size);
    if (found == by_size_.end() || found->first > most) return {};
    return remove(std::prev(by_size_.upper_bound(found->first)));
  }

  Taken take_oldest() { return remove(by_age_.begin()->second); }

 private:
  struct Block {
    std::byte* p;
    std::uint64_t age;
  };
  using BySize = std::multimap<std::size_t, Block>;

  Taken remove(BySize::iterator at) {
    const Taken taken{at->second.p, at->first};
    by_age_.erase(at->second.age);
    by_size_.erase(at);
    bytes_ -= taken.capacity;
    ASAN_UNPOISON_MEMORY_REGION(taken.p, taken.capacity);
    return taken;
  }

  BySize by_size_;
  std::map<std::uint64_t, BySize::iterator> by_age_;
  std::uint64_t next_age_ = 0;
  std::size_t bytes_ = 0;
};

struct Cache {
  std::mutex mutex;
  IdleBlocks idle;
  AllocatorStats stats;
  std::size_t bytes_held = 0;   // from the system, in use or idle
  std::size_t most_in_use = 0;  // peak of the whole process

  void give_back_oldest_locked() {
    const auto block = idle.take_oldest();
    std::free(block.p);
    bytes_held -= block.capacity;
  }

  void empty_locked() {
    while (!idle.empty()) give_back_oldest_locked();
  }

  // Returns true if the process may hold `more` additional bytes. Its limit is 1.5 times its peak
  // use. Steps of one size stay far below this limit. Where sizes change, the limit bounds the
  // number of kept blocks.
  bool may_hold_locked(std::size_t more) const {
    const std::size_t in_use = std::max(most_in_use, stats.bytes_in_use + more);
    return bytes_held + more <= in_use + in_use / 2;
  }

  IdleBlocks::Taken take_locked(std::size_t size) {
    auto block = idle.take(size, loosest_fit(size));
    if (!block.p && !may_hold_locked(size)) block = idle.take(size, loosest_fit_when_full(size));
    return block.p ? block : from_system_locked(size);
  }

  IdleBlocks::Taken from_system_locked(std::size_t size) {
    ++stats.misses;
    while (!idle.empty() && !may_hold_locked(size)) give_back_oldest_locked();
    std::byte* p = allocate_from_system(size);
    if (!p) {
      empty_locked();
      p = allocate_from_system(size);
    }
    if (p) bytes_held += size;
    return {p, size};
  }
};

// Never destroyed: tensors with static lifetime may outlive any static cache.
Cache& cache() {
  static Cache* instance = new Cache;
  return *instance;
}

}  // namespace

std::shared_ptr<std::byte> allocate_cached(std::size_t bytes) {
  DTN_CHECK(bytes <= SIZE_MAX - kAlignment, "allocation of ",
            bytes_text(static_cast<double>(bytes)), " is too large");
  const std::size_t size = rounded(bytes);
  Cache& c = cache();
  IdleBlocks::Taken block;
  {
    std::lock_guard lock(c.mutex);
    block = c.take_locked(size);
    if (block.p) {
      c.stats.bytes_in_use += size;
      c.stats.peak_bytes = std::max(c.stats.peak_bytes, c.stats.bytes_in_use);
      c.most_in_use = std::max(c.most_in_use, c.stats.bytes_in_use);
    }
  }
  DTN_CHECK(block.p, "out of memory asking for ", bytes_text(static_cast<double>(bytes)),
            "; use a smaller train.micro_batch or turn on train.checkpoint_blocks");
  ASAN_POISON_MEMORY_REGION(block.p + size, block.capacity - size);
  return {block.p, [size, capacity = block.capacity](std::byte* p) {
            Cache& owner = cache();
            std::lock_guard lock(owner.mutex);
            owner.idle.put(p, capacity);
            owner.stats.bytes_in_use -= size;
          }};
}

AllocatorStats allocator_stats() {
  std::lock_guard lock(cache().mutex);
  AllocatorStats stats = cache().stats;
  stats.bytes_cached = cache().idle.bytes();
  return stats;
}

void reset_peak_bytes() {
  std::lock_guard lock(cache().mutex);
  cache().stats.peak_bytes = cache().stats.bytes_in_use;
}

void release_cached_memory() {
  std::lock_guard lock(cache().mutex);
  cache().empty_locked();
}

}  // namespace dtn
