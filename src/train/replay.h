// The same work on a CUDA device again and again: enqueued kernel by kernel at first, then replayed
// as one captured graph.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/cuda_stream.h"

namespace dtn {

class Replay {
 public:
  // Off: always kernel by kernel, for debugging. It is also off without the caching allocator,
  // which a graph's memory needs.
  explicit Replay(bool on);

  // `signature` is what the work depends on beside memory that never moves: addresses and sizes.
  // When it changes, the graph is captured anew.
  void run(const std::vector<std::uintptr_t>& signature, const std::function<void()>& work);

  bool captured() const { return graph_ && graph_->captured(); }

 private:
  bool on_;
  std::vector<std::uintptr_t> signature_;
  int warm_ups_ = 0;
  // What the work takes and gives back, kept from everybody else between the replays.
  cuda::MemoryPool pool_;
  std::unique_ptr<cuda::Graph> graph_;
};

}  // namespace dtn
