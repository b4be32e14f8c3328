// The streams of the process's device, the order between them, and what graphs of their work hold.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace dtn::cuda {

// The first call selects the device: the first usable one, unless select_device() was called.
// Throws ConfigError if there is none.
cudaStream_t compute_stream();
cudaStream_t copy_stream();
// Stream in which ranks exchange results. It has the highest priority, because all ranks wait for a
// rank that starts late.
cudaStream_t communication_stream();

// Makes the calling thread use the process's device; by default a thread uses device 0. The
// functions above call it. Code that calls CUDA without a stream must call it itself.
void use_device();

// Returns an empty string if this program's kernels can run on the calling thread's device, which
// is `device`; otherwise one sentence with the reason and the remedy.
std::string missing_code(int device);

// Returns true while a graph is being captured: then the host cannot wait for the device, and
// memory that the graph may use must not be returned to the system.
bool is_capturing();

// Makes one stream wait for another, also while one of them is being captured. The capture then
// includes the other stream, until the captured stream waits for it in turn.
class StreamOrder {
 public:
  StreamOrder();
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // Work enqueued in `later` from now on starts after the work that is in `earlier` now.
  void wait(cudaStream_t later, cudaStream_t earlier);

 private:
  cudaEvent_t event_ = nullptr;
};

// Held by a graph during its lifetime. The graph holds the addresses of the memory pool (see
// MemoryPool in cuda_stream.h) whose scope was open at construction, so that no other pool takes
// the idle memory. When no graph holds the pool any more, its idle memory goes to the shared pool.
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
