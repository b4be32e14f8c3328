// Counts the graphs that hold a pool of device memory, see MemoryPool in cuda_stream.h.
#pragma once

namespace dtn::cuda {

// Held by a graph during its lifetime. The graph holds the addresses of the pool whose scope was
// open at construction, so that no other pool takes the idle memory. When no graph holds the pool
// any more, its idle memory goes to the shared pool.
class PoolUse {
 public:
  PoolUse();
  ~PoolUse();
  PoolUse(const PoolUse&) = delete;
  PoolUse& operator=(const PoolUse&) = delete;

 private:
  int pool_;
};

}  // namespace dtn::cuda
