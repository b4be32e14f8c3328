// A queue runs kernels. Every kernel is `run(Queue&, const Arguments&)`, with one overload per
// device: kernels/norm/layer_norm.h declares `run(CpuQueue&, const LayerNormForward&)` and
// `run(CudaQueue&, const LayerNormForward&)`. A program is linked with the CUDA backend, or with a
// backend that only reports that there is no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/meta_device.h"
#include "core/scratch.h"
#include "dtn/core/device.h"

namespace dtn {

// The host: kernels run before the call returns, in parallel on the OpenMP threads.
class CpuQueue {
 public:
  // Scratch memory of the calling thread.
  Scratch& scratch() const;
};

inline CpuQueue& cpu_queue() {
  static CpuQueue queue;
  return queue;
}

// Device memory that a kernel uses in addition to its arguments. It may be released as soon as the
// kernel is enqueued, because kernels that are enqueued later run later.
template <class T>
class DeviceScratch {
 public:
  explicit DeviceScratch(std::shared_ptr<std::byte> memory) : memory_(std::move(memory)) {}
  T* get() const { return reinterpret_cast<T*>(memory_.get()); }

 private:
  std::shared_ptr<std::byte> memory_;
};

// The CUDA device of this process, through one stream: calls enqueue a kernel and return, and the
// device runs the kernels in that order.
class CudaQueue {
 public:
  void* stream() const;  // a cudaStream_t
  // Allocates `count` values of T, uninitialised, 256-byte aligned.
  template <class T>
  DeviceScratch<T> scratch(std::int64_t count) const {
    return DeviceScratch<T>(take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  // Returns true if the device has warpgroup matrix products (kernels/cuda/warpgroup.cuh) and this
  // build has code for them. Later architectures have other instructions instead.
  bool has_warpgroup_products() const;

 private:
  std::shared_ptr<std::byte> take_bytes(std::size_t bytes) const;
};

inline CudaQueue& cuda_queue() {
  static CudaQueue queue;
  return queue;
}

// Runs a kernel on the device of its tensors.
template <class Arguments>
void run_on(Device device, const Arguments& arguments) {
  switch (device.type) {
    case DeviceType::kCpu: return run(cpu_queue(), arguments);
    case DeviceType::kCuda: return run(cuda_queue(), arguments);
    case DeviceType::kMeta: return meta_queue().count(arguments);
  }
}

}  // namespace dtn
