// Moves and adds the memory of the ranks' CUDA devices, by NCCL (src/cuda/nccl.cpp), in a separate
// stream.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "dtn/core/tensor.h"

namespace dtn {

// All calls enqueue and return; tensors are on the device. Usable while a step is being captured,
// if the capture also contains finish(): replays then repeat all operations. Graphs must be
// destroyed before the transport.
class DeviceTransport {
 public:
  // Waits until every rank calls it.
  virtual ~DeviceTransport() = default;

  // Replaces x by its sum over the ranks. Types: float32, float64 or int64; float32 may travel as
  // bfloat16. Begins when the work enqueued so far in the computing stream is done. NCCL chooses
  // the order of additions; all ranks get the same bits.
  virtual void all_reduce(Tensor x, DType wire) = 0;
  // Replaces x by the x of rank `root`.
  virtual void broadcast(Tensor x, int root) = 0;
  // Fills all [size, ...] with the x of every rank.
  virtual void all_gather(const Tensor& x, Tensor all) = 0;
  // Makes work that is enqueued from now on in the computing stream wait for all of the above. The
  // tensors may be used again only then. Throws Error if an operation has failed.
  virtual void finish() = 0;
  // Returns the failure so far, or an empty string. After a failure the device waits for ever for
  // the started operations. Callable from any thread.
  virtual std::string failure() const = 0;
};

// Copies `data`, on the host, from rank 0 to every rank.
using ShareBytes = std::function<void(std::byte* data, std::size_t bytes)>;

// Called by all ranks, after each has selected its device. Throws ConfigError if the program was
// built without NCCL, if the library is missing, or if two ranks have selected one GPU.
std::unique_ptr<DeviceTransport> open_device_transport(int rank, int size, const ShareBytes& share);

}  // namespace dtn
