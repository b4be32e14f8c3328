// Backward pass of DTN with full position matrices on a CUDA device; see dtn_dense.cuh for the
// steps. It recomputes M. One kernel then computes dM and all other gradients that need no product.
// Two products give dZ = P^T dM and dP = dM Z^T. The last kernels are shared with the other paths
// (dtn_norm_finish.cu). Sums over tokens use partial sums per image, which are added in order.
#include "kernels/dtn/dtn_dense.cuh"
#include "kernels/gemm/gemm.h"

namespace dtn {
namespace dense {
namespace {

using cuda::kWarpSize;
using cuda::warp_sum;

template <class T>
struct MomentArguments {
  Sizes sizes;
  const T *x, *dy;
  const double* head_rstd;
  const float *bases, *pivot, *token_mean, *token_var, *m;
  const float *weight, *lambda_mean, *lambda_var;
  float* dm;
  float *direct, *token_sums;  // dxhat r, like x; [2, B, H parts, T]; direct is null without dx
  float *by_weight, *by_bias;  // [B, C]
  float *by_mean, *by_var;     // [B, parts, H]
};

// Sums over the tokens for the lane's channel or the slice's head.
struct Sums {
  static constexpr int kCount = 4;
  float of[kCount];  // weight, bias, lambda_mean, lambda_var
};

// Adds the contributions of one token to the gradients of its cell's moments and to the sums.
template <bool kOfficial, class T>
__device__ __forceinline__ void token_gradients(const MomentArguments<T>& a, const Slice& slice,
                                                const double* scale, int t, float m1, float raw,
                                                float& dm1, float& dm2, Sums& sums) {
  const Sizes& s = a.sizes;
  const std::int64_t row = slice.image * s.tokens + t;
  const std::int64_t i = slice.image * s.image + std::int64_t{t} * s.channels + slice.channel;
  const float mean_share = a.lambda_mean[slice.head], var_share = a.lambda_var[slice.head];
  const float pivot = a.pivot[slice.image * s.channels + slice.channel];
  const float v1 = !kOfficial && raw < 0 ? 0.0f : raw, token_var = a.token_var[row];
  const float from_token = a.token_mean[row] + (a.bases[slice.image] - pivot) - m1;
  const float r = rsqrtf(var_share * token_var + (1 - var_share) * v1 + s.eps);
  const float x = centred<kOfficial>(a.x[i], scale, t, pivot);
  const float xhat = (x - (m1 + mean_share * from_token)) * r;
  const float g = slice.active ? cuda::to_float(a.dy[i]) : 0.0f;
  const float direct = g * a.weight[slice.channel] * r;  // -dmu
  const float dvar = -0.5f * direct * xhat * r;
  if (slice.active) {
    sums.of[0] += g * xhat;
    sums.of[1] += g;
    sums.of[2] -= direct * from_token;
    sums.of[3] += dvar * (token_var - v1);
    const float dv1 = !kOfficial && raw < 0 ? 0.0f : (1 - var_share) * dvar;
    dm1 -= (1 - mean_share) * direct + 2 * dv1 * m1;
    dm2 += dv1;
  }
  if (!a.direct) return;
  if (slice.active) a.direct[i] = direct;
  const float by_mean = warp_sum(slice.active ? -mean_share * direct : 0.0f);
  const float by_var = warp_sum(slice.active ? var_share * dvar : 0.0f);
  if (slice.lane == 0) {
    const std::int64_t parts = std::int64_t{s.heads} * s.parts,
                       part = slice.head * s.parts + slice.part;
    float* out = a.token_sums + (slice.image * parts + part) * s.tokens + t;
    out[0] = by_mean;
    out[s.batch * parts * s.tokens] = by_var;
  }
}

template <class T, bool kOfficial>
__global__ void __launch_bounds__(kThreads) dtn_dense_moments_kernel(MomentArguments<T> a) {
  DTN_SHARED(float, shared);
  const Sizes& s = a.sizes;
  const Slice slice(s);
  const double* scale =
      kOfficial ? a.head_rstd + (slice.image * s.heads + slice.head) * s.tokens : nullptr;
  Sums sums{};
  for (int cell = slice.warp; cell < s.cells; cell += kWarps) {
    const std::int64_t at = s.at(slice.head, cell, slice.image, slice.d);
    const float m1 = a.m[at], raw = a.m[at + s.head_dim] - m1 * m1;
    float dm1 = 0, dm2 = 0;
    for (int k = 0; k < s.pool * s.pool; ++k) {
      token_gradients<kOfficial>(a, slice, scale, s.token_of(cell, k), m1, raw, dm1, dm2, sums);
    }
    if (slice.active) {
      a.dm[at] = dm1;
      a.dm[at + s.head_dim] = dm2;
    }
  }
  for (int k = 0; k < Sums::kCount; ++k) shared[k * kThreads + threadIdx.x] = sums.of[k];
  __syncthreads();
  if (slice.warp >= Sums::kCount) return;
  float sum = 0;
  for (int w = 0; w < kWarps; ++w)
    sum += shared[slice.warp * kThreads + w * kWarpSize + slice.lane];
  if (slice.warp < 2) {
    float* out = slice.warp == 0 ? a.by_weight : a.by_bias;
    if (slice.active) out[slice.image * s.channels + slice.channel] = sum;
    return;
  }
  sum = warp_sum(sum);
  float* out = slice.warp == 2 ? a.by_mean : a.by_var;
  if (slice.lane == 0) out[(slice.image * s.parts + slice.part) * s.heads + slice.head] = sum;
}

// Adds to dx the gradient that a token gets through its cell. On entry dx holds `direct`. The terms
// that sum over all channels of a token come later. One warp per token.
__global__ void __launch_bounds__(kThreads)
    dtn_dense_spread_kernel(Sizes s, const float* z, const float* dz, float* dx) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize;
  if (row >= s.batch * s.tokens) return;
  const std::int64_t image = row / s.tokens, start = s.start_of(row);
  const int cell = s.cell_of(static_cast<int>(row % s.tokens));
  const float share = 1 / static_cast<float>(s.pool * s.pool);
  for (int c = static_cast<int>(threadIdx.x) % kWarpSize; c < s.channels; c += kWarpSize) {
    const std::int64_t at = s.at(c / s.head_dim, cell, image, c % s.head_dim);
    dx[start + c] += share * (dz[at] + 2 * z[at] * dz[at + s.head_dim]);
  }
}

// dP = dM Z^T
void multiply_positions(CudaQueue& queue, const Sizes& s, const float* dm, const float* z,
                        void* dpositions) {
  Gemm g{DType::kFloat32, DType::kFloat32, s.cells,   s.cells, s.columns, dm, z,
         dpositions,      s.columns,       s.columns, s.cells};
  g.transpose_b = true;
  g.batch = s.heads;
  g.stride_a = g.stride_b = s.cells * s.columns;
  g.stride_c = std::int64_t{s.cells} * s.cells;
  run(queue, g);
}

template <class T>
MomentArguments<T> moment_arguments(const DtnNormBackward& norm, const Sizes& s) {
  auto floats = [](const void* p) { return static_cast<const float*>(p); };
  MomentArguments<T> a{};
  a.sizes = s;
  a.x = static_cast<const T*>(norm.x);
  a.dy = static_cast<const T*>(norm.dy);
  a.head_rstd = static_cast<const double*>(norm.head_rstd);
  a.pivot = floats(norm.pivot);
  a.token_mean = floats(norm.token_mean);
  a.token_var = floats(norm.token_var);
  a.weight = floats(norm.weight);
  a.lambda_mean = floats(norm.lambda_mean);
  a.lambda_var = floats(norm.lambda_var);
  return a;
}

}  // namespace
}  // namespace dense

void run(CudaQueue& queue, const DtnDenseBackward& args) {
  using namespace dense;
  const DtnNormBackward& norm = args.norm;
  if (norm.elements() == 0) return;
  const Sizes s(norm);
  if (s.batch == 0) {  // dpositions gets 0
    if (args.dpositions) multiply_positions(queue, s, nullptr, nullptr, args.dpositions);
    return;
  }
  const DtnPrepared made = prepare(queue, norm, 0, 0, false);
  auto z = queue.scratch<float>(s.size_of_z()), m = queue.scratch<float>(s.size_of_z());
  auto dm = queue.scratch<float>(s.size_of_z());
  gather(queue, norm, s, nullptr, z.get());
  multiply(queue, s, args.positions, false, z.get(), m.get());

  const std::int64_t parts = std::int64_t{s.heads} * s.parts;
  // If possible, dx holds the unfinished gradient.
  const bool in_place = norm.dtype == DType::kFloat32 && norm.dx != norm.dx_add;
  auto apart = queue.scratch<float>(norm.dx && !in_place ? s.batch * s.image : 1);
  float* unfinished = !norm.dx ? nullptr : in_place ? static_cast<float*>(norm.dx) : apart.get();
  auto token_sums = queue.scratch<float>(norm.dx ? 2 * s.batch * parts * s.tokens : 1);
  auto by_channel = queue.scratch<float>(2 * s.batch * s.channels);
  auto by_head = queue.scratch<float>(2 * s.batch * parts);
  const DtnPartials partials{s.batch,
                             by_channel.get(),
                             by_channel.get() + s.batch * s.channels,
                             s.batch * s.parts,
                             by_head.get(),
                             by_head.get() + s.batch * parts,
                             nullptr};
  const KernelName name{"dtn_dense_moments", {s.batch, s.tokens, s.channels, s.heads, s.pool}};
  for_dtn_variant(name.name, norm, [&]<class T, bool kOfficial>() {
    MomentArguments<T> a = moment_arguments<T>(norm, s);
    a.bases = made.bases.get();
    a.m = m.get();
    a.dm = dm.get();
    a.direct = unfinished;
    a.token_sums = token_sums.get();
    a.by_weight = const_cast<float*>(partials.weight);
    a.by_bias = const_cast<float*>(partials.bias);
    a.by_mean = const_cast<float*>(partials.lambda_mean);
    a.by_var = const_cast<float*>(partials.lambda_var);
    launch(queue, name, dtn_dense_moments_kernel<T, kOfficial>,
           {blocks_for(s.slices(), 1), kThreads, Sums::kCount * kThreads * sizeof(float)}, a);
  });
  if (args.dpositions) multiply_positions(queue, s, dm.get(), z.get(), args.dpositions);
  if (norm.dx) {
    multiply(queue, s, args.positions, true, dm.get(), m.get());
    launch(queue, {"dtn_dense_spread", {s.batch, s.tokens, s.channels, s.heads, s.pool}},
           dtn_dense_spread_kernel, {blocks_for(s.batch * s.tokens, kWarps), kThreads}, s, z.get(),
           m.get(), unfinished);
    finish_input_gradient(queue, norm, made.bases.get(), unfinished, token_sums.get(),
                          static_cast<int>(parts), true);
  }
  finish_parameter_gradients(queue, norm, partials);
}

}  // namespace dtn
