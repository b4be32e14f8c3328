#include "core/scratch.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/allocator.h"
#include "core/queue.h"

namespace dtn {

struct Scratch::State {
  struct Chunk {
    std::shared_ptr<std::byte> memory;
    std::size_t size;
  };
  std::vector<Chunk> chunks;
  std::size_t chunk = 0;  // index of the chunk in use
  std::size_t used = 0;   // bytes taken of that chunk
};

Scratch::Scratch() : state_(new State) {}
Scratch::~Scratch() { delete state_; }

void* Scratch::take_bytes(std::size_t bytes) {
  constexpr std::size_t kMinChunk = std::size_t{1} << 20;
  State& s = *state_;
  bytes = (bytes + 63) / 64 * 64;
  while (s.chunk < s.chunks.size() && s.used + bytes > s.chunks[s.chunk].size) {
    ++s.chunk;
    s.used = 0;
  }
  if (s.chunk == s.chunks.size()) {
    std::size_t size = std::max(bytes, kMinChunk);
    s.chunks.push_back({allocate_cached(size), size});
    s.used = 0;
  }
  void* p = s.chunks[s.chunk].memory.get() + s.used;
  s.used += bytes;
  return p;
}

Scratch::Scope::Scope(Scratch& scratch)
    : scratch_(scratch), chunk_(scratch.state_->chunk), used_(scratch.state_->used) {}

Scratch::Scope::~Scope() {
  scratch_.state_->chunk = chunk_;
  scratch_.state_->used = used_;
}

Scratch& CpuQueue::scratch() const {
  static thread_local Scratch instance;
  return instance;
}

}  // namespace dtn
