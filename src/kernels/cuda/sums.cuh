// Sums of many float32 values in float64, in an order that depends only on their number: one block
// adds each chunk of kSumChunk values, then one block adds the chunks.
#pragma once

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/reduce.cuh"

namespace dtn::cuda {

inline constexpr int kSumThreads = 256;
inline constexpr int kSumVectors = 8;  // vectors of 4 values per thread
inline constexpr std::int64_t kSumChunk = std::int64_t{kSumThreads} * kSumVectors * 4;
inline constexpr int kAddThreads = 1024;

// partial[chunk] = sum of Term::of(x[i]). `wide`: x is aligned to 16 bytes. The order of the sum
// does not depend on `wide`.
template <class Term>
__global__ void sum_chunk_kernel(const float* x, std::int64_t count, bool wide, double* partial) {
  DTN_SHARED(double, scratch);
  const std::int64_t first = blockIdx.x * kSumChunk + static_cast<std::int64_t>(threadIdx.x) * 4;
  float v[kSumVectors][4];
  if (wide && blockIdx.x * kSumChunk + kSumChunk <= count) {
#pragma unroll
    for (int j = 0; j < kSumVectors; ++j) load_values(x + first + j * kSumThreads * 4, v[j]);
  } else {
#pragma unroll
    for (int j = 0; j < kSumVectors; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const std::int64_t i = first + j * kSumThreads * 4 + k;
        v[j][k] = i < count ? x[i] : 0.0f;
      }
    }
  }
  double sum[4] = {};
#pragma unroll
  for (int j = 0; j < kSumVectors; ++j) {
#pragma unroll
    for (int k = 0; k < 4; ++k) sum[k] += Term::of(v[j][k]);
  }
  const double total = block_sum_once((sum[0] + sum[1]) + (sum[2] + sum[3]), scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

template <class Finish>
__global__ void add_chunks_kernel(const double* partial, std::int64_t chunks, Finish finish) {
  DTN_SHARED(double, scratch);
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < chunks; i += kAddThreads) sum += partial[i];
  const double total = block_sum_once(sum, scratch);
  if (threadIdx.x == 0) finish(total);
}

// Calls finish(sum of Term::of(x[i])) in one thread of the device.
template <class Term, class Finish>
void launch_sum(CudaQueue& queue, const char* name, const float* x, std::int64_t count,
                const Finish& finish) {
  const std::int64_t chunks = (count + kSumChunk - 1) / kSumChunk;
  auto partial = queue.scratch<double>(chunks > 0 ? chunks : 1);
  if (chunks > 0) {
    launch(queue, {name, {count}}, sum_chunk_kernel<Term>,
           {blocks_for(count, kSumChunk), kSumThreads, kSumThreads / kWarpSize * sizeof(double)}, x,
           count, all_aligned(x), partial.get());
  }
  launch(queue, {name, {chunks}}, add_chunks_kernel<Finish>,
         {1, kAddThreads, kAddThreads / kWarpSize * sizeof(double)},
         static_cast<const double*>(partial.get()), chunks, finish);
}

}  // namespace dtn::cuda
