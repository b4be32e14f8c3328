// Backward pass of DTN on CUDA cores, for any grid, any head size and both variants. See dtn_norm.h
// for the formulas and dtn_norm_plain.cuh for the division of work.
//
// A block processes all tokens for its channels of one head of one image. It computes everything
// except the two terms of dx that sum over all channels of a token, which finish_input_gradient
// adds:
//    x minus the pivot;   z1, z2 = Px x, Px x^2;   m1, m2 = Py z1, Py z2 in registers
//    direct = dxhat r, q = -2 dvar, dm1, dm2, and the sums for weight, bias and lambdas
//    dPy from dm and z
//    dz1, dz2 = Py^T dm1, Py^T dm2, which overwrite z
//    dPx from dz and x, x^2
//    direct + Px^T dz1 + 2 x Px^T dz2, the unfinished dx
// dP is never stored. For its channel, a thread computes 4 x 4 tiles of dP where P is not 0. It
// multiplies each tile with by_offset and by_square and adds up the products. So a block writes
// three numbers for any grid.
//
// Per element: 8 (grid_h + grid_w) floating-point operations for the passes and 4 (grid_h + grid_w)
// for dP; seven planes of shared memory (or scratch); reads of x, dy and dx_add.
#include <type_traits>

#include "kernels/dtn/dtn_norm_plain.cuh"

namespace dtn {
namespace plain {
namespace {

constexpr int kPlanes = 7;
constexpr int kTile = 4;  // side of a tile of dP
constexpr int kWarps = kThreads / cuda::kWarpSize;

// Results of the blocks for the last kernels.
struct Partials {
  float *weight, *bias;                          // [B, C]
  float *lambda_mean, *lambda_var, *pos_weight;  // [B parts, H], and [B parts, H, 3] or null
  float* token_sums;                             // [2, B, H parts, T]; null without dx
  float* unfinished;                             // laid out like dx; null without dx
};

struct BackwardArguments {
  DtnNormBackward args;
  DtnSizes sizes;
  Slicing slicing;
  Range range;
  DtnAxis rows, columns;
  const float* bases;
  const float* residual;  // dx_add if it is added to the unfinished dx, else null
  Partials partials;
  float* scratch;
};

struct Planes {
  float *x, *z1, *z2, *dm1, *dm2, *direct, *q;

  __device__ Planes(float* at, int plane)
      : x(at),
        z1(x + plane),
        z2(z1 + plane),
        dm1(z2 + plane),
        dm2(dm1 + plane),
        direct(dm2 + plane),
        q(direct + plane) {}
};

// Sums of a thread. lambda_mean lacks a factor -1, lambda_var a factor -1/2.
struct Sums {
  float weight = 0, bias = 0;  // of the thread's channel
  float lambda_mean = 0, lambda_var = 0;
  float by_x = 0, by_y = 0, by_d = 0;
};

template <class T>
__device__ __forceinline__ const T* at(const void* p, std::int64_t i) {
  return static_cast<const T*>(p) + i;
}

// Computes m1 and m2 by the pass down the columns, then the gradients of each token.
template <class T, bool kOfficial>
__device__ __forceinline__ void moment_gradients(const BackwardArguments& a, const Slice& s,
                                                 const Planes& p, const AxisReads& reads,
                                                 const float* matrix, float pivot, Sums& sums) {
  const DtnSizes& sizes = a.sizes;
  const float mean_share = *at<float>(a.args.lambda_mean, s.head);
  const float var_share = *at<float>(a.args.lambda_var, s.head);
  const float dm2_share = -0.5f * (1 - var_share);
  const float weight = *at<float>(a.args.weight, s.channel);
  const std::int64_t tokens = s.image * sizes.tokens;
  const float* token_mean = at<float>(a.args.token_mean, tokens);
  const float* token_var = at<float>(a.args.token_var, tokens);
  const float offset = a.bases[s.image] - pivot;
  const T* dy = at<T>(a.args.dy, s.image * sizes.image + s.channel);
  s.for_each_block(sizes.grid_h, sizes.grid_w, [&](int first, int column) {
    auto token = [&](int k) {
      return std::min(first + k, sizes.grid_h - 1) * sizes.grid_w + column;
    };
    float g[kOutputs];  // these loads overlap with the pass
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) g[k] = cuda::to_float(dy[token(k) * sizes.channels]);
    const int from = column * s.width + s.index;
    float m1[kOutputs], m2[kOutputs];
    pass<false>(matrix + first, a.columns.stride, reads.forth[first / kOutputs], p.z1 + from,
                p.z2 + from, sizes.grid_w * s.width, m1, m2);
    Sums add;  // of this block: short partial sums lose less to rounding
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      const int t = token(k), i = t * s.width + s.index;
      const float mean = __ldg(token_mean + t), var = __ldg(token_var + t);
      const float m = m1[k], raw = m2[k] - m * m;
      const bool clamped = !kOfficial && raw < 0;
      const float v = clamped ? 0 : raw;
      const float from_token = mean + offset - m;
      const float r = rsqrtf((1 - var_share) * v + (var_share * var + sizes.eps));
      const float xhat = (p.x[i] - (m + mean_share * from_token)) * r;
      const float direct = g[k] * weight * r;  // -dmu
      const float q = direct * xhat * r;       // -2 dvar
      const float dm2 = clamped ? 0 : dm2_share * q;
      if (first + k >= sizes.grid_h) continue;
      add.weight += g[k] * xhat;
      add.bias += g[k];
      add.lambda_mean += direct * from_token;
      add.lambda_var += q * (var - v);
      p.direct[i] = direct;
      p.q[i] = q;
      p.dm1[i] = (mean_share - 1) * direct - dm2 * (m + m);
      p.dm2[i] = dm2;
    }
    sums.weight += add.weight;
    sums.bias += add.bias;
    sums.lambda_mean += add.lambda_mean;
    sums.lambda_var += add.lambda_var;
  });
}

// Computes tiles of dP and immediately adds up their products with by_offset and by_square:
//    dP[i, j] = sum over lines of left1[i] right1[j] + left2[i] right2[j]
// right2 is right1^2 for kSquare. Positions along the axis are `step` elements apart, lines
// `line_step`.
template <bool kSquare>
__device__ __forceinline__ void position_sums(const Slice& s, const DtnAxis& axis, int matrix,
                                              int step, int lines, int line_step,
                                              const float* left1, const float* left2,
                                              const float* right1, const float* right2,
                                              float& by_offset, float& by_square) {
  const int n = axis.n, side = (n + kTile - 1) / kTile;
  if (n == 1) return;  // P is constant
  const DtnSpan* seen = axis.seen + std::int64_t{matrix} * n;
  for (int tile = s.group; tile < side * side; tile += s.groups) {
    const int i0 = tile / side * kTile, j0 = tile % side * kTile;
    bool is_seen = false;  // stays false if P is 0 in the whole tile
#pragma unroll
    for (int k = 0; k < kTile; ++k) {
      is_seen |= i0 + k < n && seen[i0 + k].meets(j0, j0 + kTile);
    }
    if (!is_seen) continue;
    int left_at[kTile], right_at[kTile];
#pragma unroll
    for (int k = 0; k < kTile; ++k) {
      left_at[k] = std::min(i0 + k, n - 1) * step + s.index;
      right_at[k] = std::min(j0 + k, n - 1) * step + s.index;
    }
    float dp[kTile][kTile] = {};
    for (int line = 0; line < lines; ++line) {
      float r1[kTile], r2[kTile];
#pragma unroll
      for (int k = 0; k < kTile; ++k) {
        r1[k] = right1[right_at[k]];
        r2[k] = kSquare ? r1[k] * r1[k] : right2[right_at[k]];
      }
#pragma unroll
      for (int i = 0; i < kTile; ++i) {
        const float l1 = left1[left_at[i]], l2 = left2[left_at[i]];
#pragma unroll
        for (int j = 0; j < kTile; ++j) dp[i][j] = fmaf(l1, r1[j], fmaf(l2, r2[j], dp[i][j]));
      }
#pragma unroll
      for (int k = 0; k < kTile; ++k) left_at[k] += line_step, right_at[k] += line_step;
    }
    const std::int64_t corner = matrix * axis.per_head() + std::int64_t{i0} * axis.stride + j0;
    float offset = 0, square = 0;
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
      if (i0 + i >= n) break;  // no check of columns: those beyond n are 0 in the matrices
      const std::int64_t row = corner + i * axis.stride;
      const float4 o = __ldg(reinterpret_cast<const float4*>(axis.by_offset + row));
      const float4 d = __ldg(reinterpret_cast<const float4*>(axis.by_square + row));
      offset += o.x * dp[i][0] + o.y * dp[i][1] + o.z * dp[i][2] + o.w * dp[i][3];
      square += d.x * dp[i][0] + d.y * dp[i][1] + d.z * dp[i][2] + d.w * dp[i][3];
    }
    by_offset += offset;
    by_square += square;
  }
}

// Sums l_mu dmu and l_va dvar over the slice's channels, one warp per token.
__device__ __forceinline__ void token_sums(const BackwardArguments& a, const Slice& s,
                                           const Planes& p) {
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize, tokens = a.sizes.tokens;
  const float mean_factor = -*at<float>(a.args.lambda_mean, s.head);
  const float var_factor = -0.5f * *at<float>(a.args.lambda_var, s.head);
  const std::int64_t parts = std::int64_t{a.sizes.heads} * a.slicing.parts;
  float* by_mean = a.partials.token_sums +
                   (s.image * parts + std::int64_t{s.head} * a.slicing.parts + s.part) * tokens;
  float* by_var = by_mean + a.sizes.batch * parts * tokens;
  for (int t = static_cast<int>(threadIdx.x) / cuda::kWarpSize; t < tokens; t += kWarps) {
    const int i = t * s.width + lane;
    const float direct = cuda::warp_sum(lane < s.count ? p.direct[i] : 0.0f);
    const float q = cuda::warp_sum(lane < s.count ? p.q[i] : 0.0f);
    if (lane == 0) {
      by_mean[t] = mean_factor * direct;
      by_var[t] = var_factor * q;
    }
  }
}

// Computes dz1 and dz2 by the pass down the columns with the transposed matrix. They overwrite z1
// and z2.
__device__ __forceinline__ void column_gradients(const DtnSizes& sizes, const Slice& s,
                                                 const DtnAxis& axis, const AxisReads& reads,
                                                 const float* matrix, const Planes& p) {
  const int step = sizes.grid_w * s.width;
  s.for_each_block(sizes.grid_h, sizes.grid_w, [&](int first, int column) {
    const int from = column * s.width + s.index;
    float dz1[kOutputs], dz2[kOutputs];
    pass<false>(matrix + first, axis.stride, reads.back[first / kOutputs], p.dm1 + from,
                p.dm2 + from, step, dz1, dz2);
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      if (first + k >= sizes.grid_h) break;
      p.z1[from + (first + k) * step] = dz1[k];
      p.z2[from + (first + k) * step] = dz2[k];
    }
  });
}

// Computes the pass along the rows with the transposed matrix, and the unfinished dx. The moments
// are those of x minus the pivot, so the pivot needs no term.
__device__ __forceinline__ void input_gradient(const BackwardArguments& a, const Slice& s,
                                               const AxisReads& reads, const float* matrix,
                                               const Planes& p) {
  const DtnSizes& sizes = a.sizes;
  const std::int64_t start = s.image * sizes.image + s.channel;
  const float* residual = a.residual ? a.residual + start : nullptr;
  float* dx = a.partials.unfinished + start;
  s.for_each_block(sizes.grid_w, sizes.grid_h, [&](int first, int row) {
    const std::int64_t to = (row * sizes.grid_w + first) * sizes.channels;
    float r[kOutputs] = {};  // these loads overlap with the pass
    if (residual) {
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
        if (first + k < sizes.grid_w) r[k] = residual[to + k * sizes.channels];
      }
    }
    const int from = row * sizes.grid_w * s.width + s.index;
    float d1[kOutputs], d2[kOutputs];
    pass<false>(matrix + first, a.rows.stride, reads.back[first / kOutputs], p.z1 + from,
                p.z2 + from, s.width, d1, d2);
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      if (first + k >= sizes.grid_w) break;
      const int i = from + (first + k) * s.width;
      dx[to + k * sizes.channels] = p.direct[i] + d1[k] + 2 * p.x[i] * d2[k] + r[k];
    }
  });
}

// Shared memory for the sums over a block, in floats: two per thread, then five per warp.
constexpr int kScalars = 5;
constexpr int kSumFloats = 2 * kThreads + kScalars * kWarps;

__device__ __forceinline__ void add_up(const BackwardArguments& a, const Slice& s, const Sums& mine,
                                       float* shared) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / cuda::kWarpSize;
  float *weights = shared, *biases = weights + kThreads, *scalars = biases + kThreads;
  deposit(s, mine.weight, weights);
  deposit(s, mine.bias, biases);
  const float values[kScalars] = {-mine.lambda_mean, -0.5f * mine.lambda_var, mine.by_x, mine.by_y,
                                  mine.by_d};
#pragma unroll
  for (int k = 0; k < kScalars; ++k) {
    const float sum = cuda::warp_sum(values[k]);
    if (thread % cuda::kWarpSize == 0) scalars[k * kWarps + warp] = sum;
  }
  __syncthreads();
  if (s.group == 0) {
    const std::int64_t to = s.image * a.sizes.channels + s.channel;
    a.partials.weight[to] = total(s, weights);
    a.partials.bias[to] = total(s, biases);
  }
  if (thread >= kScalars) return;
  float sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += scalars[thread * kWarps + w];
  const std::int64_t to = (s.image * a.slicing.parts + s.part) * a.sizes.heads + s.head;
  if (thread == 0) a.partials.lambda_mean[to] = sum;
  if (thread == 1) a.partials.lambda_var[to] = sum;
  if (thread >= 2 && a.partials.pos_weight) a.partials.pos_weight[3 * to + thread - 2] = sum;
}

template <class T, bool kOfficial, bool kShared>
__global__ void __launch_bounds__(kThreads, 2) dtn_plain_backward_kernel(BackwardArguments a) {
  const DtnSizes& sizes = a.sizes;
  const Slice s(sizes, a.slicing, a.range);
  DTN_SHARED(DtnSpan, spans);
  const int matrix = s.head - a.range.first_head;
  const Reads reads(a.rows, a.columns, matrix, spans);
  auto* shared = reinterpret_cast<float*>(spans + AxisReads::count(sizes));
  const Planes p(planes_of_block<kShared>(a.slicing, kPlanes, shared + kSumFloats, a.scratch),
                 a.slicing.plane);
  const int line = sizes.grid_w * s.width;
  const std::int64_t row_matrix = matrix * a.rows.per_head();
  const std::int64_t column_matrix = matrix * a.columns.per_head();
  const float pivot = *at<float>(a.args.pivot, s.image * sizes.channels + s.channel);
  const bool positions = a.partials.pos_weight != nullptr, wants_dx = a.partials.unfinished;
  const double* scale = nullptr;
  if constexpr (kOfficial) {
    scale = at<double>(a.args.head_rstd, (s.image * sizes.heads + s.head) * sizes.tokens);
  }
  Sums sums;

  const T* x = at<T>(a.args.x, s.image * sizes.image + s.channel);
#pragma unroll 4
  for (int t = s.group; t < sizes.tokens; t += s.groups) {
    p.x[t * s.width + s.index] = centred<kOfficial>(x[t * sizes.channels], scale, t, pivot);
  }
  __syncthreads();
  row_pass(sizes, s, a.rows, reads.rows, a.rows.p_transposed + row_matrix, p.x, p.z1, p.z2);
  __syncthreads();
  moment_gradients<T, kOfficial>(a, s, p, reads.columns, a.columns.p_transposed + column_matrix,
                                 pivot, sums);
  __syncthreads();
  if (wants_dx) token_sums(a, s, p);
  if (positions) {
    position_sums<false>(s, a.columns, matrix, line, sizes.grid_w, s.width, p.dm1, p.dm2, p.z1,
                         p.z2, sums.by_y, sums.by_d);
    __syncthreads();  // before column_gradients overwrites z
  }
  if (positions || wants_dx) {
    column_gradients(sizes, s, a.columns, reads.columns, a.columns.p + column_matrix, p);
    __syncthreads();
  }
  if (positions) {
    position_sums<true>(s, a.rows, matrix, s.width, sizes.grid_h, line, p.z1, p.z2, p.x, nullptr,
                        sums.by_x, sums.by_d);
  }
  if (wants_dx) input_gradient(a, s, reads.rows, a.rows.p + row_matrix, p);
  add_up(a, s, sums, shared);
}

template <class T, bool kOfficial>
void launch_backward(CudaQueue& queue, const BackwardArguments& a, std::int64_t blocks) {
  const std::size_t shared_bytes = a.slicing.shared_bytes(kSumFloats);
  auto launch_kernel = [&](auto kernel) {
    launch(queue,
           {"dtn_plain_backward",
            {a.sizes.batch, a.sizes.grid_h, a.sizes.grid_w, a.sizes.channels, a.sizes.heads}},
           kernel, {blocks_for(blocks, 1), kThreads, shared_bytes}, a);
  };
  a.slicing.in_shared ? launch_kernel(dtn_plain_backward_kernel<T, kOfficial, true>)
                      : launch_kernel(dtn_plain_backward_kernel<T, kOfficial, false>);
}

template <class T, bool kOfficial>
void run_for(CudaQueue& queue, const DtnNormBackward& args) {
  const DtnSizes sizes(args);
  const Slicing slicing(sizes, kPlanes);
  const PlaneScratch scratch(queue, sizes, slicing, kPlanes);
  // True if dx can hold the unfinished gradient, dx_add included; otherwise it is in scratch
  // memory.
  const bool in_place = std::is_same_v<T, float> && !kOfficial;
  const bool wants_dx = args.dx != nullptr, wants_positions = args.dpos_weight != nullptr;
  const std::int64_t elements = sizes.batch * sizes.image;
  const std::int64_t head_rows = sizes.batch * slicing.parts, parts = sizes.heads * slicing.parts;
  DeviceScratch<float> channel_sums = queue.scratch<float>(2 * sizes.batch * sizes.channels);
  DeviceScratch<float> head_sums = queue.scratch<float>(5 * head_rows * sizes.heads);
  DeviceScratch<float> by_token(nullptr), unfinished(nullptr);
  if (wants_dx) by_token = queue.scratch<float>(2 * sizes.batch * parts * sizes.tokens);
  if (wants_dx && !in_place) unfinished = queue.scratch<float>(elements);
  float* heads_at = head_sums.get();
  const Partials partials{channel_sums.get(),
                          channel_sums.get() + sizes.batch * sizes.channels,
                          heads_at,
                          heads_at + head_rows * sizes.heads,
                          wants_positions ? heads_at + 2 * head_rows * sizes.heads : nullptr,
                          by_token.get(),
                          in_place ? static_cast<float*>(args.dx) : unfinished.get()};
  const float* residual = in_place && wants_dx ? static_cast<const float*>(args.dx_add) : nullptr;
  for_each_wave_of_heads(sizes, wants_positions ? 4 : 2, [&](int first_head, int heads) {
    const DtnPrepared prepared = prepare(queue, args, first_head, heads, wants_positions);
    for_each_launch(
        sizes, slicing, scratch.slices, first_head, heads,
        [&](const Range& range, std::int64_t blocks) {
          launch_backward<T, kOfficial>(
              queue,
              {args, sizes, slicing, range, prepared.positions.rows, prepared.positions.columns,
               prepared.bases.get(), residual, partials, scratch.memory.get()},
              blocks);
        });
    if (wants_dx && first_head + heads == sizes.heads) {
      finish_input_gradient(queue, args, prepared.bases.get(), partials.unfinished,
                            partials.token_sums, static_cast<int>(parts), !in_place);
    }
  });
  finish_parameter_gradients(queue, args,
                             {sizes.batch, partials.weight, partials.bias, head_rows,
                              partials.lambda_mean, partials.lambda_var, partials.pos_weight});
}

}  // namespace
}  // namespace plain

void run_plain(CudaQueue& queue, const DtnNormBackward& args) {
  for_dtn_variant("dtn_plain_backward", args,
                  [&]<class T, bool kOfficial>() { plain::run_for<T, kOfficial>(queue, args); });
}

}  // namespace dtn
