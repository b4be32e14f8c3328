// Which pools of device memory are held by graphs, see MemoryPool in cuda_stream.h.
#pragma once

namespace dtn::cuda {

// From construction to destruction a graph holds the addresses of the pool whose scope was open at
// construction, so that its idle memory stays its own. When no graph holds a pool any more, that
// memory becomes everybody's.
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
