// Three launches for all tensors: the sum of squares of each chunk; the factor of each tensor; the
// product, which reads and writes only gradients above the limit.
#include "kernels/cuda/reduce.cuh"
#include "kernels/optimizer/optimizer_factors.h"
#include "kernels/optimizer/parameter_clip.h"
#include "kernels/optimizer/tensor_chunks.cuh"

namespace dtn {
namespace {

using cuda::kChunkThreads, cuda::for_each_of_chunk;

constexpr int kFactorThreads = 128;

// The scratch of a sum over a block.
constexpr unsigned scratch_bytes(int threads) {
  return static_cast<unsigned>(threads / cuda::kWarpSize * static_cast<int>(sizeof(double)));
}

__global__ void __launch_bounds__(kChunkThreads)
    parameter_squares_kernel(ParameterClip args, double* partial) {
  DTN_SHARED(double, scratch);
  double sum = 0;
  for_each_of_chunk(args.tensors.chunks[blockIdx.x], [&](auto width, std::int64_t i) {
    constexpr int n = decltype(width)::value;
    float g[n];
    cuda::load_values(args.grad + i, g);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const double wide = g[k];
      sum += wide * wide;
    }
  });
  sum = cuda::block_sum_once(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block per tensor.
__global__ void __launch_bounds__(kFactorThreads)
    parameter_factor_kernel(ParameterClip args, const double* partial, float* factors) {
  DTN_SHARED(double, scratch);
  const std::int64_t end = args.tensors.first_chunk[blockIdx.x + 1];
  double sum = 0;
  for (std::int64_t c = args.tensors.first_chunk[blockIdx.x] + threadIdx.x; c < end;
       c += kFactorThreads) {
    sum += partial[c];
  }
  sum = cuda::block_sum_once(sum, scratch);
  if (threadIdx.x == 0) factors[blockIdx.x] = parameter_factor(args, sum);
}

__global__ void __launch_bounds__(kChunkThreads)
    parameter_scale_kernel(ParameterClip args, const float* factors) {
  const TensorChunk chunk = args.tensors.chunks[blockIdx.x];
  const float factor = factors[chunk.tensor];
  if (factor == 1) return;
  for_each_of_chunk(chunk, [&](auto width, std::int64_t i) {
    constexpr int n = decltype(width)::value;
    float g[n];
    cuda::load_values(args.grad + i, g);
#pragma unroll
    for (int k = 0; k < n; ++k) g[k] *= factor;
    cuda::store_values(args.grad + i, g);
  });
}

}  // namespace

void run(CudaQueue& queue, const ParameterClip& args) {
  const TensorChunks& t = args.tensors;
  if (t.chunk_count == 0) return;
  DTN_CHECK(cuda::all_aligned(args.grad), "parameter_clip: gradients must be aligned to 16 bytes");
  auto partial = queue.scratch<double>(t.chunk_count);
  auto factors = queue.scratch<float>(t.tensor_count);
  const auto chunks = static_cast<unsigned>(t.chunk_count);
  const auto tensors = static_cast<unsigned>(t.tensor_count);
  launch(queue, {"parameter_squares", {t.chunk_count}}, parameter_squares_kernel,
         {chunks, kChunkThreads, scratch_bytes(kChunkThreads)}, args, partial.get());
  launch(queue, {"parameter_factor", {t.tensor_count}}, parameter_factor_kernel,
         {tensors, kFactorThreads, scratch_bytes(kFactorThreads)}, args,
         static_cast<const double*>(partial.get()), factors.get());
  launch(queue, {"parameter_scale", {t.chunk_count}}, parameter_scale_kernel,
         {chunks, kChunkThreads}, args, static_cast<const float*>(factors.get()));
}

}  // namespace dtn
