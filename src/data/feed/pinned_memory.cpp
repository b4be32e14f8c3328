#include "data/feed/pinned_memory.h"

#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/cuda_device.h"

namespace dtn {
namespace {

class PinnedCache : public std::enable_shared_from_this<PinnedCache> {
 public:
  std::shared_ptr<std::byte> take(std::size_t bytes) {
    std::shared_ptr<std::byte> block = from_bin(bytes);
    if (!block) block = cuda::allocate_pinned(bytes);
    std::byte* address = block.get();
    return {address, [cache = shared_from_this(), block = std::move(block), bytes](auto*) mutable {
              cache->give_back(bytes, std::move(block));
            }};
  }

 private:
  using Block = std::shared_ptr<std::byte>;

  Block from_bin(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    std::vector<Block>& bin = bins_[bytes];
    if (bin.empty()) return nullptr;
    Block block = std::move(bin.back());
    bin.pop_back();
    return block;
  }
  void give_back(std::size_t bytes, Block block) {
    std::lock_guard lock(mutex_);
    bins_[bytes].push_back(std::move(block));
  }

  std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<Block>> bins_;
};

}  // namespace

HostMemory pinned_memory() {
  return
      [cache = std::make_shared<PinnedCache>()](std::size_t bytes) { return cache->take(bytes); };
}

}  // namespace dtn
