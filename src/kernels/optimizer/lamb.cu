// LAMB takes one pass without trust ratios, like AdamW, and three launches with them for all
// tensors of a range: the moments and sums of each chunk; the ratio of each tensor; the step, which
// recomputes u. The launches move 24, next to 0, and 18 bytes per element with the bfloat16 copy:
// 22 million parameters take 215 us at 4.3 TB/s. See lamb.h for the formulas.
//
// Products and sums are fused exactly where the host compilers fuse them.
#include "kernels/cuda/sums.cuh"
#include "kernels/optimizer/lamb.h"
#include "kernels/optimizer/tensor_chunks.cuh"
#include "kernels/optimizer/update_map.cuh"

namespace dtn {
namespace {

using cuda::kChunkThreads, cuda::for_each_of_chunk;

constexpr int kRatioThreads = 128;
constexpr int kWarps = kChunkThreads / cuda::kWarpSize;

__device__ __forceinline__ void advance_moments(const LambFactors& f, float grad, float& m,
                                                float& v) {
  const float g = __fmul_rn(grad, f.grad_scale);
  m = __fmaf_rn(m, f.beta1, __fmul_rn(f.rest1, g));
  v = __fmaf_rn(v, f.beta2, __fmul_rn(__fmul_rn(f.rest2, g), g));
}

__device__ __forceinline__ float update_of(const LambFactors& f, float p, float m, float v) {
  const float root = __fdiv_rn(__fsqrt_rn(v), f.root_correction2);
  const float adam = __fdiv_rn(__fdiv_rn(m, f.correction1), __fadd_rn(root, f.eps));
  return __fmaf_rn(f.decay, p, adam);
}

struct LambMap
    : UpdateMap<LambStep, 2, true, &LambStep::param, &LambStep::m, &LambStep::v, &LambStep::grad> {
  template <int n>
  __device__ void store(std::int64_t i, float (&v)[4][n]) const {
    if (!f.apply) return;
    const float step = static_cast<float>(-f.lr);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      advance_moments(f, v[3][k], v[1][k], v[2][k]);
      v[0][k] = __fmaf_rn(step, update_of(f, v[0][k], v[1][k], v[2][k]), v[0][k]);
    }
    cuda::store_values(args.m + i, v[1]);
    cuda::store_values(args.v + i, v[2]);
    store_params(i, v[0]);
  }
};

struct LambShared {
  LambFactors factors;
  double scratch[2][kWarps];
};

__global__ void __launch_bounds__(kChunkThreads)
    lamb_moments_kernel(LambStep args, LambSums* partial) {
  DTN_SHARED(LambShared, shared);
  if (threadIdx.x == 0) shared->factors = factors_of(args);
  __syncthreads();
  const LambFactors f = shared->factors;
  if (!f.apply) return;
  double params = 0, updates = 0;
  for_each_of_chunk(args.tensors.chunks[blockIdx.x], [&](auto width, std::int64_t i) {
    constexpr int n = decltype(width)::value;
    float p[n], m[n], v[n], grad[n];
    cuda::load_values(args.param + i, p);
    cuda::load_values(args.m + i, m);
    cuda::load_values(args.v + i, v);
    cuda::load_values(args.grad + i, grad);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      advance_moments(f, grad[k], m[k], v[k]);
      const double w = p[k], u = update_of(f, p[k], m[k], v[k]);
      params += w * w;
      updates += u * u;
    }
    cuda::store_values(args.m + i, m);
    cuda::store_values(args.v + i, v);
  });
  params = cuda::block_sum_once(params, shared->scratch[0]);
  updates = cuda::block_sum_once(updates, shared->scratch[1]);
  if (threadIdx.x == 0) partial[blockIdx.x] = {params, updates};
}

// One block per tensor.
__global__ void __launch_bounds__(kRatioThreads)
    lamb_ratio_kernel(LambStep args, const LambSums* partial, float* steps) {
  DTN_SHARED(LambShared, shared);
  if (!is_applied(args.state)) return;
  const std::int64_t end = args.tensors.first_chunk[blockIdx.x + 1];
  LambSums sums{};
  for (std::int64_t c = args.tensors.first_chunk[blockIdx.x] + threadIdx.x; c < end;
       c += kRatioThreads) {
    sums.param += partial[c].param;
    sums.update += partial[c].update;
  }
  sums.param = cuda::block_sum_once(sums.param, shared->scratch[0]);
  sums.update = cuda::block_sum_once(sums.update, shared->scratch[1]);
  if (threadIdx.x == 0) steps[blockIdx.x] = lamb_step(factors_of(args), sums);
}

__global__ void __launch_bounds__(kChunkThreads)
    lamb_step_kernel(LambStep args, const float* steps) {
  DTN_SHARED(LambShared, shared);
  if (threadIdx.x == 0) shared->factors = factors_of(args);
  __syncthreads();
  const LambFactors f = shared->factors;
  if (!f.apply) return;
  const TensorChunk chunk = args.tensors.chunks[blockIdx.x];
  const float step = steps[chunk.tensor];
  for_each_of_chunk(chunk, [&](auto width, std::int64_t i) {
    constexpr int n = decltype(width)::value;
    float p[n], m[n], v[n];
    cuda::load_values(args.param + i, p);
    cuda::load_values(args.m + i, m);
    cuda::load_values(args.v + i, v);
#pragma unroll
    for (int k = 0; k < n; ++k) p[k] = __fmaf_rn(step, update_of(f, p[k], m[k], v[k]), p[k]);
    cuda::store_values(args.param + i, p);
    if (args.param_bf16) cuda::store_values(args.param_bf16 + i, p);
  });
}

void step_with_ratios(CudaQueue& queue, const LambStep& args) {
  const TensorChunks& t = args.tensors;
  DTN_CHECK(cuda::all_aligned(args.param, args.m, args.v, args.grad, args.param_bf16),
            "lamb: tensors must be aligned to 16 bytes");
  auto partial = queue.scratch<LambSums>(t.chunk_count);
  auto steps = queue.scratch<float>(t.tensor_count);
  const auto chunks = static_cast<unsigned>(t.chunk_count);
  const auto tensors = static_cast<unsigned>(t.tensor_count);
  launch(queue, {"lamb_moments", {args.count, t.chunk_count}}, lamb_moments_kernel,
         {chunks, kChunkThreads, sizeof(LambShared)}, args, partial.get());
  launch(queue, {"lamb_ratio", {t.tensor_count}}, lamb_ratio_kernel,
         {tensors, kRatioThreads, sizeof(LambShared)}, args,
         static_cast<const LambSums*>(partial.get()), steps.get());
  launch(queue, {"lamb_step", {args.count, t.chunk_count}}, lamb_step_kernel,
         {chunks, kChunkThreads, sizeof(LambShared)}, args, static_cast<const float*>(steps.get()));
}

}  // namespace

void run(CudaQueue& queue, const LambStep& args) {
  if (args.tensors.tensor_count > 0) return step_with_ratios(queue, args);
  cuda::launch_map(queue, "lamb", LambMap{{args}}, args.count,
                   cuda::all_aligned(args.param, args.m, args.v, args.grad, args.param_bf16),
                   sizeof(LambFactors));
}

}  // namespace dtn
