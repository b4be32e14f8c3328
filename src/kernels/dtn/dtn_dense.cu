// Forward pass of DTN with full position matrices on a CUDA device; see dtn_dense.cuh for the
// steps. x is read three times per image: for the token statistics, for the pivots, and for the
// output. Z reads it from the first-level cache after the pivots. y is written once. Z and M, each
// as large as 2 x in float32, are written and read once.
#include "kernels/dtn/dtn_dense.cuh"
#include "kernels/gemm/gemm.h"

namespace dtn {
namespace dense {
namespace {

using cuda::kWarpSize;

template <class T>
struct GatherArguments {
  Sizes sizes;
  const T* x;
  const double* head_rstd;
  const float* bases;  // null: the pivots are given
  float *pivot, *z;
};

// Mean of x over the tokens, for the lane's channel; sums over the warps.
template <bool kOfficial, class T>
__device__ float make_pivot(const GatherArguments<T>& a, const Slice& slice, const T* x,
                            const double* scale, float* sums) {
  const float base = a.bases[slice.image];
  float sum = 0;
  for (int t = slice.warp; t < a.sizes.tokens; t += kWarps) {
    sum += centred<kOfficial>(x[std::int64_t{t} * a.sizes.channels], scale, t, base);
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += sums[w * kWarpSize + slice.lane];
  const float pivot = base + sum / static_cast<float>(a.sizes.tokens);
  if (slice.warp == 0 && slice.active) {
    a.pivot[slice.image * a.sizes.channels + slice.channel] = pivot;
  }
  return pivot;
}

template <class T, bool kOfficial>
__global__ void __launch_bounds__(kThreads) dtn_dense_gather_kernel(GatherArguments<T> a) {
  DTN_SHARED(float, shared);
  const Sizes& s = a.sizes;
  const Slice slice(s);
  const T* x = a.x + slice.image * s.image + slice.channel;
  const double* scale =
      kOfficial ? a.head_rstd + (slice.image * s.heads + slice.head) * s.tokens : nullptr;
  const float pivot = a.bases ? make_pivot<kOfficial>(a, slice, x, scale, shared)
                              : a.pivot[slice.image * s.channels + slice.channel];
  if (!slice.active) return;
  const int tokens = s.pool * s.pool;
  const float share = 1 / static_cast<float>(tokens);
  for (int cell = slice.warp; cell < s.cells; cell += kWarps) {
    float sum = 0;
    for (int k = 0; k < tokens; ++k) {
      const int t = s.token_of(cell, k);
      sum += centred<kOfficial>(x[std::int64_t{t} * s.channels], scale, t, pivot);
    }
    sum *= share;
    float* z = a.z + s.at(slice.head, cell, slice.image, slice.d);
    z[0] = sum;
    z[s.head_dim] = sum * sum;
  }
}

template <class T>
struct OutputArguments {
  Sizes sizes;
  const T* x;
  T* y;
  const double* head_rstd;
  const float *bases, *pivot, *token_mean, *token_var, *m;
  const float *weight, *bias, *lambda_mean, *lambda_var;
};

// One warp per token.
template <class T, bool kOfficial>
__global__ void __launch_bounds__(kThreads) dtn_dense_output_kernel(OutputArguments<T> a) {
  const Sizes& s = a.sizes;
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize;
  if (row >= s.batch * s.tokens) return;
  const std::int64_t image = row / s.tokens, start = s.start_of(row);
  const int t = static_cast<int>(row % s.tokens), cell = s.cell_of(t);
  const float base = a.bases[image], token_mean = a.token_mean[row], token_var = a.token_var[row];
  for (int c = static_cast<int>(threadIdx.x) % kWarpSize; c < s.channels; c += kWarpSize) {
    const int head = c / s.head_dim;
    const float* m = a.m + s.at(head, cell, image, c % s.head_dim);
    const float mean_share = a.lambda_mean[head], var_share = a.lambda_var[head];
    const float pivot = a.pivot[image * s.channels + c], m1 = m[0];
    float v1 = m[s.head_dim] - m1 * m1;
    if constexpr (!kOfficial) v1 = v1 < 0 ? 0.0f : v1;
    const double* scale = kOfficial ? a.head_rstd + (image * s.heads + head) * s.tokens : nullptr;
    const float x = centred<kOfficial>(a.x[start + c], scale, t, pivot);
    const float mu = mean_share * (token_mean + (base - pivot)) + (1 - mean_share) * m1;
    const float var = var_share * token_var + (1 - var_share) * v1;
    const float y = (x - mu) * rsqrtf(var + s.eps) * a.weight[c] + a.bias[c];
    a.y[start + c] = cuda::from_float<T>(y);
  }
}

}  // namespace

void gather(CudaQueue& queue, const DtnNormArguments& norm, const Sizes& s, const float* bases,
            float* z) {
  const KernelName name{"dtn_dense_gather", {s.batch, s.tokens, s.channels, s.heads, s.pool}};
  for_dtn_variant(name.name, norm, [&]<class T, bool kOfficial>() {
    const GatherArguments<T> a{
        s,     static_cast<const T*>(norm.x),   static_cast<const double*>(norm.head_rstd),
        bases, static_cast<float*>(norm.pivot), z};
    launch(queue, name, dtn_dense_gather_kernel<T, kOfficial>,
           {blocks_for(s.slices(), 1), kThreads, kThreads * sizeof(float)}, a);
  });
}

void multiply(CudaQueue& queue, const Sizes& s, const void* positions, bool transposed,
              const float* z, float* m) {
  Gemm g{DType::kFloat32, DType::kFloat32, s.cells,  s.columns, s.cells, positions, z, m,
         s.cells,         s.columns,       s.columns};
  g.transpose_a = transposed;
  g.batch = s.heads;
  g.stride_a = std::int64_t{s.cells} * s.cells;
  g.stride_b = g.stride_c = s.cells * s.columns;
  run(queue, g);
}

}  // namespace dense

void run(CudaQueue& queue, const DtnDenseForward& args) {
  const DtnNormForward& norm = args.norm;
  if (norm.is_empty()) return;
  const dense::Sizes s(norm);
  const DtnPrepared made = prepare(queue, norm, 0, 0);
  token_statistics(queue, norm, made.bases.get());
  auto z = queue.scratch<float>(s.size_of_z()), m = queue.scratch<float>(s.size_of_z());
  dense::gather(queue, norm, s, made.bases.get(), z.get());
  dense::multiply(queue, s, args.positions, false, z.get(), m.get());
  const KernelName name{"dtn_dense_output", {s.batch, s.tokens, s.channels, s.heads, s.pool}};
  for_dtn_variant(name.name, norm, [&]<class T, bool kOfficial>() {
    auto floats = [](const void* p) { return static_cast<const float*>(p); };
    const dense::OutputArguments<T> a{s,
                                      static_cast<const T*>(norm.x),
                                      static_cast<T*>(norm.y),
                                      static_cast<const double*>(norm.head_rstd),
                                      made.bases.get(),
                                      floats(norm.pivot),
                                      floats(norm.token_mean),
                                      floats(norm.token_var),
                                      m.get(),
                                      floats(norm.weight),
                                      floats(norm.bias),
                                      floats(norm.lambda_mean),
                                      floats(norm.lambda_var)};
    launch(queue, name, dense::dtn_dense_output_kernel<T, kOfficial>,
           {blocks_for(s.batch * s.tokens, dense::kWarps), dense::kThreads}, a);
  });
}

}  // namespace dtn
