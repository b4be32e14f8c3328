// Graphs of repeated work. See cuda_stream.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/cuda_stream.h"

namespace dtn::cuda {

// Repeated work on a CUDA device: enqueued kernel by kernel at first, then replayed as one captured
// graph.
class Replay {
 public:
  // If `on` is false, always enqueues kernel by kernel, for debugging. It is also off without the
  // caching allocator, which the memory of a graph needs.
  explicit Replay(bool on);

  // `signature` holds the addresses and sizes that the work depends on, except memory that never
  // moves. If it changes, the graph is captured again.
  void run(const std::vector<std::uintptr_t>& signature, const std::function<void()>& work);

 private:
  bool captured() const { return graph_ && graph_->captured(); }

  bool on_;
  std::vector<std::uintptr_t> signature_;
  int warm_ups_ = 0;
  // Memory that the work allocates and frees. No other code gets it between the replays.
  MemoryPool pool_;
  std::unique_ptr<Graph> graph_;
};

}  // namespace dtn::cuda
