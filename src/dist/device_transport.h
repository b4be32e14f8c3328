// How the memory of the ranks' CUDA devices is moved and added: by NCCL (src/cuda/nccl.cpp), in a
// stream beside that of computing.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "dtn/core/tensor.h"

namespace dtn {

// All calls enqueue and return; tensors are on the device. Usable while a step is being captured,
// if the capture has finish() in it, too: replays then repeat all of it. Graphs must be gone before
// the transport.
class DeviceTransport {
 public:
  // Every rank comes here, and waits for the others.
  virtual ~DeviceTransport() = default;

  // x becomes its sum over the ranks: float32, float64 or int64; float32 may travel as bfloat16.
  // Begins when what has been enqueued for computing is done. The order of additions is NCCL's
  // choice; all ranks get the same bits.
  virtual void all_reduce(Tensor x, DType wire) = 0;
  // x becomes what it is at root.
  virtual void broadcast(Tensor x, int root) = 0;
  // all [size, ...] becomes x of every rank.
  virtual void all_gather(const Tensor& x, Tensor all) = 0;
  // What is enqueued for computing from now on waits for all of the above; tensors are used again
  // only then. Throws Error when something has failed on the way.
  virtual void finish() = 0;
  // What has failed on the way so far, or nothing. The device then waits for ever for what has been
  // started. From any thread.
  virtual std::string failure() const = 0;
};

// Makes `data`, on the host, on every rank what it is on rank 0.
using ShareBytes = std::function<void(std::byte* data, std::size_t bytes)>;

// Called by all ranks, after each has selected its device. Throws ConfigError where the program was
// built without NCCL, the library is not there, or two ranks have selected one GPU.
std::unique_ptr<DeviceTransport> open_device_transport(int rank, int size, const ShareBytes& share);

}  // namespace dtn
