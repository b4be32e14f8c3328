// A queue is what a kernel is run on. Every kernel is `run(Queue&, const Arguments&)`, one overload
// per device: kernels/layer_norm.h declares `run(CpuQueue&, const LayerNormForward&)`, and a CUDA
// build adds `run(CudaQueue&, const LayerNormForward&)` beside it.
#pragma once

#include "dtn/core/scratch.h"

namespace dtn {

// The host: kernels run before the call returns, spread over the OpenMP threads.
class CpuQueue {
 public:
  // The calling thread's scratch memory.
  Scratch& scratch() const;
};

inline CpuQueue& cpu_queue() {
  static CpuQueue queue;
  return queue;
}

}  // namespace dtn
