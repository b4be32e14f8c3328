// Last steps of DTN's backward pass on a CUDA device: the two terms of dx that sum over all
// channels of a token, and the parameter gradients from partial sums. See dtn_norm_cuda.cuh.
//
// dx: one warp per token reads the unfinished gradient, x, and possibly dx_add, and writes dx. Each
// has B T C elements, so the kernel is memory-bound. Parameters: a block sums 32 columns of a
// table. Its warps take the rows in turn, and their sums are added in the order of the warps. So
// the order of sums is fixed.
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/dtn/dtn_norm_cuda.cuh"

namespace dtn {
namespace {

using cuda::kWarpSize;
using cuda::to_float;
using cuda::warp_sum;

constexpr int kTokenThreads = 256;
constexpr int kTokenWarps = kTokenThreads / kWarpSize;

struct FinishArguments {
  std::int64_t rows;  // B T
  std::int64_t batch;
  std::int64_t image;  // elements between the starts of two images
  int tokens, channels, heads, parts;
  const float *bases, *mean, *unfinished, *token_sums;
  const double* head_rstd;
  const void *x, *add;
  void* dx;
  const std::int64_t* lengths;  // [B], or null

  // True if token `row` is padding.
  __device__ __forceinline__ bool is_pad(std::int64_t row) const {
    return lengths && row % tokens >= lengths[row / tokens];
  }

  // Offset of token `row`.
  __device__ __forceinline__ std::int64_t start_of(std::int64_t row) const {
    return row / tokens * image + row % tokens * channels;
  }
};

// The terms of a token: dx += constant + (x - base - mean) slope.
struct TokenTerms {
  float constant, slope, base, mean;

  __device__ float operator()(float centred) const { return (centred - mean) * slope + constant; }
};

__device__ TokenTerms token_terms(const FinishArguments& a, std::int64_t row, float divisor) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int64_t b = row / a.tokens;
  const float* by_mean = a.token_sums + b * a.parts * a.tokens + row % a.tokens;
  const float* by_var = by_mean + a.batch * a.parts * a.tokens;
  float mean_sum = 0, var_sum = 0;
  for (int i = lane; i < a.parts; i += kWarpSize) {
    mean_sum += by_mean[std::int64_t{i} * a.tokens];
    var_sum += by_var[std::int64_t{i} * a.tokens];
  }
  return {warp_sum(mean_sum) / static_cast<float>(a.channels), 2 * warp_sum(var_sum) / divisor,
          a.bases[b], a.mean[row]};
}

template <class T>
__device__ __forceinline__ void clear_token(const FinishArguments& a, std::int64_t row) {
  T* dx = static_cast<T*>(a.dx) + a.start_of(row);
  for (int c = static_cast<int>(threadIdx.x) % kWarpSize; c < a.channels; c += kWarpSize) {
    dx[c] = cuda::from_float<T>(0.0f);
  }
}

template <class T, bool kVectors>
__global__ void __launch_bounds__(kTokenThreads) dtn_input_gradient_kernel(FinishArguments a) {
  constexpr int n = kVectors ? cuda::kPerVector<T> : 1;
  const std::int64_t row = std::int64_t{blockIdx.x} * kTokenWarps + threadIdx.x / kWarpSize;
  if (row >= a.rows) return;
  if (a.is_pad(row)) return clear_token<T>(a, row);
  const TokenTerms terms = token_terms(a, row, static_cast<float>(a.channels));
  const std::int64_t start = a.start_of(row);
  const T* x = static_cast<const T*>(a.x) + start;
  const T* add = a.add ? static_cast<const T*>(a.add) + start : nullptr;
  const float* unfinished = a.unfinished + start;
  T* dx = static_cast<T*>(a.dx) + start;
#pragma unroll 2
  for (int c = static_cast<int>(threadIdx.x) % kWarpSize * n; c < a.channels; c += kWarpSize * n) {
    float v[n], d[n], r[n] = {};
    if constexpr (kVectors) {
      cuda::load_vector<T>(x + c, v);
      for (int k = 0; k < n; k += 4) {
        float part[4];
        cuda::load_vector<float>(unfinished + c + k, part);
        for (int i = 0; i < 4; ++i) d[k + i] = part[i];
      }
      if (add) cuda::load_vector<T>(add + c, r);
    } else {
      v[0] = to_float(x[c]);
      d[0] = unfinished[c];
      if (add) r[0] = to_float(add[c]);
    }
    for (int k = 0; k < n; ++k) d[k] += terms(v[k] - terms.base) + r[k];
    if constexpr (kVectors) {
      cuda::store_vector<T>(dx + c, d);
    } else {
      dx[c] = cuda::from_float<T>(d[0]);
    }
  }
}

// Processes one head after the other. With u = x s: dx = s (du - u mean(du u)).
template <class T>
__global__ void __launch_bounds__(kTokenThreads) dtn_official_gradient_kernel(FinishArguments a) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kTokenWarps + threadIdx.x / kWarpSize;
  if (row >= a.rows) return;
  if (a.is_pad(row)) return clear_token<T>(a, row);
  const TokenTerms terms = token_terms(a, row, static_cast<float>(a.channels - 1));
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize, head_dim = a.channels / a.heads;
  const double* scales = a.head_rstd + row / a.tokens * a.heads * a.tokens + row % a.tokens;
  for (int h = 0; h < a.heads; ++h) {
    const double exact_scale = scales[std::int64_t{h} * a.tokens];
    const float scale = static_cast<float>(exact_scale);
    const std::int64_t start = a.start_of(row) + h * head_dim;
    const T* x = static_cast<const T*>(a.x) + start;
    const T* add = a.add ? static_cast<const T*>(a.add) + start : nullptr;
    T* dx = static_cast<T*>(a.dx) + start;
    auto gradient = [&](int c, float v) {
      return a.unfinished[start + c] + terms(centred_quotient(v, exact_scale, terms.base));
    };
    float dot = 0;
    for (int c = lane; c < head_dim; c += kWarpSize) {
      const float v = to_float(x[c]);
      dot += gradient(c, v) * (v * scale);
    }
    dot = warp_sum(dot) / static_cast<float>(head_dim);
    for (int c = lane; c < head_dim; c += kWarpSize) {
      const float v = to_float(x[c]);
      float d = (gradient(c, v) - v * scale * dot) * scale;
      if (add) d += to_float(add[c]);
      dx[c] = cuda::from_float<T>(d);
    }
  }
}

constexpr int kColumnThreads = 512;
constexpr int kColumnWarps = kColumnThreads / kWarpSize;

// to [width] += sums over the rows of from [rows, width], multiplied by lambda (1 - lambda) if
// lambda is given. Its blocks begin at first_block.
struct ColumnSums {
  const float* from;
  float* to;
  const float* lambda;  // [width], or null
  std::int64_t rows;
  int width, first_block;
};
constexpr int kTables = 6;
struct Tables {
  ColumnSums table[kTables];
  int count;
};

__global__ void __launch_bounds__(kColumnThreads) dtn_parameter_gradients_kernel(Tables tables) {
  DTN_SHARED(float, scratch);
  ColumnSums sums = tables.table[0];
#pragma unroll
  for (int i = 1; i < kTables; ++i) {
    if (i < tables.count && static_cast<int>(blockIdx.x) >= tables.table[i].first_block) {
      sums = tables.table[i];
    }
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int column = (static_cast<int>(blockIdx.x) - sums.first_block) * kWarpSize + lane;
  float sum = 0;
  if (column < sums.width) {
#pragma unroll 4
    for (std::int64_t r = warp; r < sums.rows; r += kColumnWarps) {
      sum += sums.from[r * sums.width + column];
    }
  }
  scratch[threadIdx.x] = sum;
  __syncthreads();
  if (warp > 0 || column >= sums.width) return;
  for (int w = 1; w < kColumnWarps; ++w) sum += scratch[w * kWarpSize + lane];
  if (sums.lambda) {
    const float l = sums.lambda[column];
    sums.to[column] = __fmaf_rn(__fmul_rn(sum, l), 1.0f - l, sums.to[column]);
  } else {
    sums.to[column] += sum;
  }
}

}  // namespace

void finish_input_gradient(CudaQueue& queue, const DtnNormBackward& args, const float* bases,
                           const float* unfinished, const float* token_sums, int parts,
                           bool add_residual, const std::int64_t* lengths) {
  const DtnSizes sizes(args);
  const int channels = static_cast<int>(sizes.channels);
  const FinishArguments a{sizes.batch * sizes.tokens,
                          sizes.batch,
                          sizes.image,
                          sizes.tokens,
                          channels,
                          sizes.heads,
                          parts,
                          bases,
                          static_cast<const float*>(args.token_mean),
                          unfinished,
                          token_sums,
                          static_cast<const double*>(args.head_rstd),
                          args.x,
                          add_residual ? args.dx_add : nullptr,
                          args.dx,
                          lengths};
  const LaunchShape shape{blocks_for(a.rows, kTokenWarps), kTokenThreads};
  const KernelName name{"dtn_input_gradient", {sizes.batch, sizes.tokens, channels}};
  for_cuda_dtype(name.name, args.dtype, [&](auto zero) {
    using T = decltype(zero);
    bool vectors = cuda::is_vectorizable<float>(unfinished, channels);
    for (const void* p : {a.x, a.add, static_cast<const void*>(a.dx)}) {
      vectors = vectors && cuda::is_vectorizable<T>(p, channels);
    }
    if (args.variant == DtnVariant::kOfficial) {
      launch(queue, name, dtn_official_gradient_kernel<T>, shape, a);
    } else if (vectors) {
      launch(queue, name, dtn_input_gradient_kernel<T, true>, shape, a);
    } else {
      launch(queue, name, dtn_input_gradient_kernel<T, false>, shape, a);
    }
  });
}

void finish_parameter_gradients(CudaQueue& queue, const DtnNormBackward& args,
                                const DtnPartials& partials) {
  Tables tables{};
  int blocks = 0;
  auto add = [&](const float* from, void* to, std::int64_t rows, std::int64_t width,
                 const void* lambda = nullptr) {
    if (!from || !to) return;
    tables.table[tables.count++] = {
        from, static_cast<float*>(to), static_cast<const float*>(lambda),
        rows, static_cast<int>(width), blocks};
    blocks += static_cast<int>((width + kWarpSize - 1) / kWarpSize);
  };
  add(partials.weight, args.dweight, partials.channel_rows, args.channels);
  add(partials.bias, args.dbias, partials.channel_rows, args.channels);
  add(partials.lambda_mean, args.dlambda_mean, partials.head_rows, args.heads,
      args.by_logits ? args.lambda_mean : nullptr);
  add(partials.lambda_var, args.dlambda_var, partials.head_rows, args.heads,
      args.by_logits ? args.lambda_var : nullptr);
  add(partials.pos_weight, args.dpos_weight, partials.head_rows, 3 * args.heads);
  add(partials.branch, args.dbranch_sums, partials.channel_rows, args.channels);
  if (blocks == 0) return;
  launch(queue, {"dtn_parameter_gradients", {partials.channel_rows, args.channels, args.heads}},
         dtn_parameter_gradients_kernel,
         {dim3(static_cast<unsigned>(blocks)), kColumnThreads, kColumnThreads * sizeof(float)},
         tables);
}

}  // namespace dtn
