// Sums of the losses of anchors in float64, in an order that depends only on the number of terms:
// one block adds each chunk, then one block adds the chunks.
#pragma once

#include "kernels/cuda/sums.cuh"

namespace dtn::cuda {

inline constexpr int kTermThreads = 256, kTermsPerThread = 16;
inline constexpr std::int64_t kTermChunk = std::int64_t{kTermThreads} * kTermsPerThread;

// partial[chunk] = sum of term(i). Threads take neighbouring terms.
template <class Term>
__global__ void __launch_bounds__(kTermThreads)
    sum_terms_kernel(Term term, std::int64_t count, double* partial) {
  DTN_SHARED(double, scratch);
  const std::int64_t first = blockIdx.x * kTermChunk + threadIdx.x;
  double sum = 0;
#pragma unroll 4
  for (int j = 0; j < kTermsPerThread; ++j) {
    const std::int64_t i = first + std::int64_t{j} * kTermThreads;
    if (i < count) sum += static_cast<double>(term(i));
  }
  const double total = block_sum_once(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

// Writes a sum times a factor of the device.
struct ScaledTotal {
  const float* scale;
  float* to;
  __device__ __forceinline__ void operator()(double total) const {
    *to = static_cast<float>(static_cast<double>(*scale) * total);
  }
};

// *to = *scale times the sum of term(i), i = 0 .. count - 1.
template <class Term>
void launch_scaled_sum(CudaQueue& queue, const char* name, const Term& term, std::int64_t count,
                       const ScaledTotal& finish) {
  const std::int64_t chunks = (count + kTermChunk - 1) / kTermChunk;
  auto partial = queue.scratch<double>(chunks > 0 ? chunks : 1);
  if (chunks > 0) {
    launch(queue, {name, {count}}, sum_terms_kernel<Term>,
           {blocks_for(count, kTermChunk), kTermThreads, kTermThreads / kWarpSize * sizeof(double)},
           term, count, partial.get());
  }
  launch(queue, {name, {chunks}}, add_chunks_kernel<ScaledTotal>,
         {1, kAddThreads, kAddThreads / kWarpSize * sizeof(double)},
         static_cast<const double*>(partial.get()), chunks, finish);
}

}  // namespace dtn::cuda
