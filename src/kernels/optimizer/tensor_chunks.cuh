// Iteration over the elements of a chunk by one block of a CUDA device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/optimizer/tensor_chunks.h"

namespace dtn::cuda {

inline constexpr int kChunkThreads = 256;

// Calls f(integral_constant n, i) for this thread's elements i .. i + n - 1: vectors of 4, then
// single elements after the last vector.
template <class F>
__device__ __forceinline__ void for_each_of_chunk(const TensorChunk& chunk, F&& f) {
  const std::int64_t count = chunk.end - chunk.begin, vectors = count / 4;
  for (std::int64_t j = threadIdx.x; j < vectors; j += kChunkThreads) {
    f(std::integral_constant<int, 4>{}, chunk.begin + 4 * j);
  }
  if (threadIdx.x < count % 4) {
    f(std::integral_constant<int, 1>{}, chunk.begin + 4 * vectors + threadIdx.x);
  }
}

}  // namespace dtn::cuda
