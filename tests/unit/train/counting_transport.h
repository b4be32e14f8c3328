// Ranks as threads, with a count of their large sums.
#pragma once

#include <atomic>

#include "thread_ranks.h"

namespace dtn::testing {

class CountingTransport : public ThreadTransport {
 public:
  using ThreadTransport::ThreadTransport;
  std::unique_ptr<Move> exchange(const std::byte* from, const std::vector<ByteBlock>& from_blocks,
                                 std::byte* to, const std::vector<ByteBlock>& to_blocks) override {
    ++exchanges;
    return ThreadTransport::exchange(from, from_blocks, to, to_blocks);
  }

  static inline std::atomic<int> exchanges = 0;  // started, by all ranks together
};

}  // namespace dtn::testing
