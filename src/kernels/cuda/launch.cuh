// Launches a kernel from a .cu file, with error checks and a name, and declares its dynamic shared
// memory. The same sources compile with nvcc, and with a host compiler for the emulator of
// tests/cuda_emulator, whose cuda_runtime.h then replaces the toolkit's.
//
// Rules that keep every kernel testable there: shared memory is dynamic (DTN_SHARED), blocks are
// whole warps, every lane of a warp takes part in its shuffles and fragments, and sums of floats
// never use atomics.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <limits>

#include "core/queue.h"
#include "dtn/core/check.h"
#include "dtn/core/dtype.h"
#include "kernels/cuda/trace.h"

// T* name: the block's dynamic shared memory, 16-byte aligned.
#ifdef DTN_CUDA_EMULATED
#define DTN_SHARED(T, name) T* name = static_cast<T*>(::emu::shared_memory())
#else
#define DTN_SHARED(T, name)                                         \
  extern __shared__ __align__(16) unsigned char dtn_shared_bytes[]; \
  T* name = reinterpret_cast<T*>(dtn_shared_bytes)
#endif

namespace dtn {

// Name of a launch in error messages: the kernel and its sizes.
struct KernelName {
  const char* name;
  std::array<std::int64_t, 6> sizes{};
};

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

namespace detail {
inline void check_launch(cudaError_t error, const KernelName& kernel, const LaunchShape& shape) {
  if (error == cudaSuccess) return;
  std::string sizes;
  for (std::int64_t s : kernel.sizes) {
    if (s) sizes += cat(sizes.empty() ? "" : " x ", s);
  }
  throw Error(cat("CUDA kernel ", kernel.name, " (", sizes, "; ", shape.grid.x, " x ", shape.grid.y,
                  " x ", shape.grid.z, " blocks of ", shape.block.x * shape.block.y * shape.block.z,
                  " threads, ", shape.shared_bytes,
                  " bytes of shared memory): ", cudaGetErrorString(error)));
}
}  // namespace detail

// Enqueues a kernel. `args` are converted to the kernel's parameter types.
template <class... P, class... A>
void launch(CudaQueue& queue, const KernelName& name, void (*kernel)(P...),
            const LaunchShape& shape, const A&... args) {
  auto stream = static_cast<cudaStream_t>(queue.stream());
  const cuda::TracedLaunch traced(name.name);
#ifdef DTN_CUDA_EMULATED
  detail::check_launch(emu::launch(stream, kernel, shape.grid, shape.block, shape.shared_bytes,
                                   static_cast<P>(args)...),
                       name, shape);
#else
  if (shape.shared_bytes > 48 * 1024) {  // CUDA requires an opt-in for more
    detail::check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(shape.shared_bytes)),
                         name, shape);
  }
  auto call = [&](P... values) {
    void* pointers[] = {static_cast<void*>(&values)..., nullptr};
    return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), shape.grid, shape.block,
                            pointers, shape.shared_bytes, stream);
  };
  detail::check_launch(call(static_cast<P>(args)...), name, shape);
#endif
}

// Returns the largest shared memory of a block on the device in use, in bytes: 99 KiB or more.
inline std::size_t most_shared_bytes() {
  int device = 0, bytes = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (error != cudaSuccess) {
    throw Error(
        cat("CUDA: cannot ask the device for its shared memory: ", cudaGetErrorString(error)));
  }
  return static_cast<std::size_t>(bytes);
}

// Returns the number of blocks that cover n items. Throws Error if a grid cannot have that many.
inline dim3 blocks_for(std::int64_t n, std::int64_t per_block) {
  constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max();
  const std::int64_t blocks = (n + per_block - 1) / per_block;
  DTN_CHECK(0 <= n && blocks <= kMaxBlocks, "a kernel for ", n, " items in blocks of ", per_block,
            "; a grid has at most ", kMaxBlocks, " blocks");
  return dim3(static_cast<unsigned>(blocks));
}

// Calls f(T{}) with T = float or bfloat16; float64 is for gradient checks and stays on the CPU.
template <class F>
void for_cuda_dtype(const char* kernel, DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32: return f(float{});
    case DType::kBFloat16: return f(bfloat16{});
    default:
      throw Error(cat(kernel, ": ", name_of(dtype),
                      " is not computed on CUDA devices; float32 and bfloat16 are"));
  }
}

}  // namespace dtn
