// Outputs that see an input, and inputs that an output sees, on a device; see window.h.
#pragma once

#include "kernels/conv/window.h"
#include "kernels/cuda/elementwise.cuh"

namespace dtn::cuda {

inline constexpr int kWindowThreads = 256;

__device__ __forceinline__ std::int64_t this_element() {
  return std::int64_t{blockIdx.x} * kWindowThreads + threadIdx.x;
}

// Returns the output along one dimension that sees input `i` through tap `u`, or -1.
__device__ __forceinline__ std::int64_t output_of(std::int64_t i, std::int64_t u, std::int64_t pad,
                                                  std::int64_t stride, std::int64_t outputs) {
  const std::int64_t at = i + pad - u;
  if (at < 0 || at % stride != 0 || at / stride >= outputs) return -1;
  return at / stride;
}

// Return the first and the last output along a dimension that may see input i.
__device__ __forceinline__ std::int64_t first_output(std::int64_t i, std::int64_t kernel,
                                                     std::int64_t stride, std::int64_t pad) {
  const std::int64_t at = i + pad - kernel + 1;
  return at <= 0 ? 0 : (at + stride - 1) / stride;
}
__device__ __forceinline__ std::int64_t last_output(std::int64_t i, std::int64_t stride,
                                                    std::int64_t pad, std::int64_t outputs) {
  const std::int64_t at = (i + pad) / stride;
  return at < outputs ? at : outputs - 1;
}

// Launches a kernel with one thread for each of `count` elements.
template <class... P, class... A>
void launch_elements(CudaQueue& queue, const KernelName& name, void (*kernel)(P...),
                     std::int64_t count, const A&... args) {
  if (count == 0) return;
  launch(queue, name, kernel, {blocks_for(count, kWindowThreads), kWindowThreads}, args...);
}

}  // namespace dtn::cuda
