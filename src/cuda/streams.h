// The streams of the process's device, and order between them.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace dtn::cuda {

// Selects the device on first use, 0 unless select_device() was called. Throws ConfigError when
// there is none.
cudaStream_t compute_stream();
cudaStream_t copy_stream();
// Where ranks exchange what they have computed. Before the others where the device has to choose: a
// rank that begins late keeps all of them.
cudaStream_t communication_stream();

// The calling thread works on the process's device; otherwise it would be device 0, whatever was
// selected. The functions above see to it; what calls CUDA without a stream asks for it.
void use_device();

// Empty when this program's kernels can run on the calling thread's device, which is `device`;
// otherwise one sentence with the reason and the remedy.
std::string missing_code(int device);

// A graph is being captured: then the device cannot be waited for, and memory that the graph may
// use must not be given back.
bool is_capturing();

// Lets streams wait for each other. Also while one is being captured, which draws the other into
// the graph until the first waits for it in turn.
class StreamOrder {
 public:
  StreamOrder();
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // What is enqueued in `later` from now on begins when what is in `earlier` by now is done.
  void wait(cudaStream_t later, cudaStream_t earlier);

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace dtn::cuda
