#include "core/cuda_device.h"
#include "core/cuda_stream.h"
#include "cuda/check.h"
#include "cuda/streams.h"
#include "kernels/cuda/trace.h"

namespace dtn::cuda {
namespace {

// Returns true for host memory that the device can read and write directly.
bool is_page_locked(const void* p) {
  cudaPointerAttributes attributes;
  DTN_CUDA(cudaPointerGetAttributes(&attributes, p));
  return attributes.type != cudaMemoryTypeUnregistered;
}

// A captured copy would keep the address of pageable host memory and use it at every replay.
void refuse_in_capture(const char* copy) {
  if (!is_capturing()) return;
  throw Error(
      cat("CUDA: a ", copy,
          " memory that is not page-locked was requested while a step is captured as a graph; this "
          "is a bug in the program: it must use allocate_pinned() for such copies"));
}

}  // namespace

void copy_to_device(void* to, const void* from, std::size_t bytes) {
  const TracedLaunch traced("copy to device");
  const bool pageable = bytes > 0 && !is_page_locked(from);
  if (pageable) refuse_in_capture("copy to the device from");
  DTN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, compute_stream()));
  // CUDA does not promise that it has read all pageable memory before it returns.
  if (pageable) synchronize();
}
void copy_to_host(void* to, const void* from, std::size_t bytes) {
  const TracedLaunch traced("copy to host");
  if (bytes > 0 && !is_page_locked(to)) refuse_in_capture("copy from the device to");
  DTN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, compute_stream()));
}
void copy_on_device(void* to, const void* from, std::size_t bytes) {
  const TracedLaunch traced("copy on device");
  DTN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, compute_stream()));
}
void fill_with_zero(void* to, std::size_t bytes) {
  const TracedLaunch traced("fill with zero");
  DTN_CUDA(cudaMemsetAsync(to, 0, bytes, compute_stream()));
}

void copy_ahead(void* to, const void* from, std::size_t bytes) {
  DTN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, copy_stream()));
}

}  // namespace dtn::cuda
