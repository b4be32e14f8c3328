// A queue is what a kernel is run on. Every kernel is `run(Queue&, const Arguments&)`, one overload
// per device: kernels/layer_norm.h declares `run(CpuQueue&, const LayerNormForward&)` and
// `run(CudaQueue&, const LayerNormForward&)`. A program is linked with a CUDA backend or with one
// that only says that there is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/meta_device.h"
#include "core/scratch.h"
#include "dtn/core/device.h"

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

// Device memory that a kernel uses beside its arguments. It may be let go as soon as the kernel is
// enqueued: what is enqueued later runs later.
template <class T>
class DeviceScratch {
 public:
  explicit DeviceScratch(std::shared_ptr<std::byte> memory) : memory_(std::move(memory)) {}
  T* get() const { return reinterpret_cast<T*>(memory_.get()); }

 private:
  std::shared_ptr<std::byte> memory_;
};

// The CUDA device of this process, through one stream: a kernel is enqueued, the call returns, and
// the device runs what was enqueued in that order.
class CudaQueue {
 public:
  void* stream() const;  // a cudaStream_t
  // Room for `count` values of T, uninitialised, 256-byte aligned.
  template <class T>
  DeviceScratch<T> scratch(std::int64_t count) const {
    return DeviceScratch<T>(take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  // Whether the device has products of warpgroups (kernels/cuda/warpgroup.cuh), and this build code
  // for them. Later architectures have others in their place.
  bool has_warpgroup_products() const;

 private:
  std::shared_ptr<std::byte> take_bytes(std::size_t bytes) const;
};

inline CudaQueue& cuda_queue() {
  static CudaQueue queue;
  return queue;
}

// Runs a kernel where its tensors live.
template <class Arguments>
void run_on(Device device, const Arguments& arguments) {
  switch (device.type) {
    case DeviceType::kCpu: return run(cpu_queue(), arguments);
    case DeviceType::kCuda: return run(cuda_queue(), arguments);
    case DeviceType::kMeta: return meta_queue().count(arguments);
  }
}

}  // namespace dtn
