// Attention of a few queries on a CUDA device; see query_attention.h. A warp takes 32 keys at a
// time. A row of K or V is spread over its lanes. At the end lane j holds the score of key j.
//
// Forward: one block per query. Each warp computes a separate softmax over its keys, and the block
// combines them. Backward: one block per head of an image, with all queries in shared memory. The
// forward pass reads B H (2 D T) elements; the backward pass reads and writes as many. It reads the
// rows of K again for dk and dq, from the first-level cache.
#include "kernels/attention/lane_row.cuh"
#include "kernels/attention/query_attention.h"

namespace dtn {
namespace {

using attention::LaneRow;
using cuda::kWarpSize;
using cuda::warp_sum;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;

// The sizes of one head of an image, and its offsets in the arrays.
struct HeadShape {
  int queries, tokens, heads, dim;
  std::int64_t q_stride, kv_stride;  // from row to row; V lies q_stride after K

  template <class Arguments>
  explicit HeadShape(const Arguments& args)
      : queries(static_cast<int>(args.queries)),
        tokens(static_cast<int>(args.tokens)),
        heads(static_cast<int>(args.heads)),
        dim(static_cast<int>(args.head_dim)),
        q_stride(args.heads * args.head_dim),
        kv_stride(2 * q_stride) {}

  __device__ __forceinline__ std::int64_t in_q(int item) const {
    return std::int64_t{item / heads} * queries * q_stride + item % heads * dim;
  }
  __device__ __forceinline__ std::int64_t in_kv(int item) const {
    return std::int64_t{item / heads} * tokens * kv_stride + item % heads * dim;
  }
};

__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x) / kWarpSize; }

// Blocks per multiprocessor, for the launch bounds. Without it the compiler uses fewer registers
// than it needs.
template <int C>
inline constexpr int kBlocks = C <= 2 ? 8 : 16 / C;

// Calls f(first, count) for the groups of up to 32 keys of this warp.
template <class F>
__device__ __forceinline__ void for_keys_of_warp(int tokens, F&& f) {
  for (int first = warp_index() * kWarpSize; first < tokens; first += kThreads) {
    f(first, tokens - first < kWarpSize ? tokens - first : kWarpSize);
  }
}

// Results of the warps of a forward block, each for its keys: [kWarps] of out [32 C], the largest
// score, and the sum of the probabilities relative to it.
template <int C>
struct WarpResults {
  static constexpr int kRow = 32 * C, kStride = kRow + 2;
  static constexpr std::size_t kBytes = kWarps * kStride * sizeof(float);
  float* shared;

  __device__ __forceinline__ float* of(int warp) const { return shared + warp * kStride; }

  __device__ __forceinline__ void set(const LaneRow<C>& out, float largest, float sum) const {
    float* mine = of(warp_index());
    out.store(mine, kRow);
    if (lane_index() == 0) mine[kRow] = largest, mine[kRow + 1] = sum;
    __syncthreads();
  }
  __device__ __forceinline__ float largest() const {
    float top = of(0)[kRow];
    for (int w = 1; w < kWarps; ++w) top = cuda::max_or_nan(top, of(w)[kRow]);
    return top;
  }
  // The sum over all warps of value i, after rescaling to the same largest score.
  __device__ __forceinline__ float sum(int i, float top) const {
    float total = 0;
    for (int w = 0; w < kWarps; ++w) total = fmaf(of(w)[i], expf(of(w)[kRow] - top), total);
    return total;
  }
};

template <class T, int C>
__global__ void __launch_bounds__(kThreads, kBlocks<C>)
    query_attention_forward_kernel(HeadShape shape, const T* q, const T* kv, T* out, float* lse,
                                   float scale) {
  DTN_SHARED(float, shared);
  const int item = static_cast<int>(blockIdx.x) / shape.queries;
  const std::int64_t in_q =
      shape.in_q(item) + static_cast<int>(blockIdx.x) % shape.queries * shape.q_stride;
  const T *k = kv + shape.in_kv(item), *v = k + shape.q_stride;
  const int lane = lane_index();
  LaneRow<C> query, row, sums{};
  query.load(q + in_q, shape.dim);
  query.scale(scale);
  float largest = -INFINITY, sum = 0;
  for_keys_of_warp(shape.tokens, [&](int first, int count) {
    float score = -INFINITY;
#pragma unroll 4
    for (int j = 0; j < count; ++j) {
      row.load(k + (first + j) * shape.kv_stride, shape.dim);
      const float s = query.dot(row);
      if (lane == j) score = s;
    }
    const float top = cuda::max_or_nan(largest, cuda::warp_max(score));
    const float p = expf(score - top), rescale = expf(largest - top);
    largest = top;
    sum = fmaf(sum, rescale, warp_sum(p));
    sums.scale(rescale);
#pragma unroll 4
    for (int j = 0; j < count; ++j) {
      row.load(v + (first + j) * shape.kv_stride, shape.dim);
      sums.add(__shfl_sync(cuda::kWholeWarp, p, j), row);
    }
  });
  const WarpResults<C> results{shared};
  results.set(sums, largest, sum);
  const float top = results.largest(), total = results.sum(results.kRow + 1, top);
  for (int d = static_cast<int>(threadIdx.x); d < shape.dim; d += kThreads) {
    out[in_q + d] = cuda::from_float<T>(results.sum(d, top) / total);
  }
  if (threadIdx.x == 0) lse[blockIdx.x] = top + logf(total);
}

// Shared memory of a backward block. The last three arrays are per warp: probabilities and score
// gradients of the current keys, and the warp's part of dq without the scale. p and ds have two
// buffers each, for alternate groups of keys. So a lane may still read one group while another lane
// writes the next.
template <int C>
struct BackwardShared {
  static constexpr int kRow = 32 * C;
  static constexpr std::int64_t kBytesPerQuery =
      (2 * kRow + 2 + kWarps * (4 * kWarpSize + kRow)) * std::int64_t{sizeof(float)};
  float *queries, *douts, *lse, *delta, *p, *ds, *dq;

  __device__ __forceinline__ BackwardShared(float* memory, int count) {
    queries = memory;  // [Q, 32 C], scaled
    douts = queries + count * kRow;
    lse = douts + count * kRow;  // [Q]
    delta = lse + count;
    p = delta + count;  // [2, warps, Q, 32]
    ds = p + 2 * kWarps * count * kWarpSize;
    dq = ds + 2 * kWarps * count * kWarpSize;  // [warps, Q, 32 C]
  }
};

template <class T>
struct BackwardArrays {
  const T *q, *kv, *out, *dout;
  const float* lse;
  T *dq, *dkv;
  float scale;
};

// Loads the queries, douts and their statistics into shared memory; sets dq = 0.
template <class T, int C>
__device__ __forceinline__ void load_queries(const HeadShape& shape, const BackwardArrays<T>& a,
                                             int item, const BackwardShared<C>& shared) {
  constexpr int kRow = 32 * C;
  for (int i = warp_index(); i < shape.queries; i += kWarps) {
    const std::int64_t row = shape.in_q(item) + i * shape.q_stride;
    LaneRow<C> query, out, dout;
    query.load(a.q + row, shape.dim);
    query.scale(a.scale);
    query.store(shared.queries + i * kRow, kRow);
    out.load(a.out + row, shape.dim);
    dout.load(a.dout + row, shape.dim);
    dout.store(shared.douts + i * kRow, kRow);
    const float delta = dout.dot(out);
    if (lane_index() != 0) continue;
    shared.delta[i] = delta;
    shared.lse[i] = a.lse[std::int64_t{item} * shape.queries + i];
  }
  for (int i = static_cast<int>(threadIdx.x); i < kWarps * shape.queries * kRow; i += kThreads) {
    shared.dq[i] = 0;
  }
  __syncthreads();
}

template <class T, int C>
__global__ void __launch_bounds__(kThreads, kBlocks<C>)
    query_attention_backward_kernel(HeadShape shape, BackwardArrays<T> arrays) {
  constexpr int kRow = 32 * C;
  DTN_SHARED(float, memory);
  const BackwardShared<C> shared(memory, shape.queries);
  const int item = static_cast<int>(blockIdx.x), lane = lane_index(), n = shape.queries;
  load_queries<T, C>(shape, arrays, item, shared);
  const T *k = arrays.kv + shape.in_kv(item), *v = k + shape.q_stride;
  T* dk = arrays.dkv + shape.in_kv(item);
  float* dq = shared.dq + warp_index() * n * kRow;
  LaneRow<C> query, dout, key, value, of_query;
  for_keys_of_warp(shape.tokens, [&](int first, int count) {
    const int of_group = (first / kThreads % 2 * kWarps + warp_index()) * n * kWarpSize;
    float *p = shared.p + of_group, *ds = shared.ds + of_group;
    for (int i = 0; i < n; ++i) {
      query.load(shared.queries + i * kRow, kRow);
      dout.load(shared.douts + i * kRow, kRow);
      float score = -INFINITY, dp = 0;
#pragma unroll 4
      for (int j = 0; j < count; ++j) {
        key.load(k + (first + j) * shape.kv_stride, shape.dim);
        value.load(v + (first + j) * shape.kv_stride, shape.dim);
        const float s = query.dot(key), of_value = dout.dot(value);
        if (lane == j) score = s, dp = of_value;
      }
      const float weight = expf(score - shared.lse[i]);
      p[i * kWarpSize + lane] = weight;
      ds[i * kWarpSize + lane] = weight * (dp - shared.delta[i]);
    }
    __syncwarp();
    for (int j = 0; j < count; ++j) {
      key.load(k + (first + j) * shape.kv_stride, shape.dim);
      LaneRow<C> dkey{}, dvalue{};
      for (int i = 0; i < n; ++i) {
        query.load(shared.queries + i * kRow, kRow);
        dout.load(shared.douts + i * kRow, kRow);
        of_query.load(dq + i * kRow, kRow);
        dkey.add(ds[i * kWarpSize + j], query);
        dvalue.add(p[i * kWarpSize + j], dout);
        of_query.add(ds[i * kWarpSize + j], key);
        of_query.store(dq + i * kRow, kRow);
      }
      dkey.store(dk + (first + j) * shape.kv_stride, shape.dim);
      dvalue.store(dk + shape.q_stride + (first + j) * shape.kv_stride, shape.dim);
    }
  });
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < n * kRow; at += kThreads) {
    const int i = at / kRow, d = at % kRow;
    if (d >= shape.dim) continue;
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += shared.dq[w * n * kRow + at];
    arrays.dq[shape.in_q(item) + i * shape.q_stride + d] = cuda::from_float<T>(sum * arrays.scale);
  }
}

template <class Arguments>
bool is_empty(const Arguments& args) {
  return args.batch * args.queries * args.tokens * args.heads * args.head_dim == 0;
}

// Calls f(T{}, C) with T the storage type and 32 C the smallest row width that holds a head.
template <class Arguments, class F>
void for_width(const char* name, const Arguments& args, F&& f) {
  DTN_CHECK(args.head_dim <= 256, name, ": heads of ", args.head_dim,
            " channels; CUDA devices take up to 256");
  for_cuda_dtype(name, args.dtype, [&](auto zero) {
    if (args.head_dim <= 64) return f(zero, std::integral_constant<int, 2>{});
    if (args.head_dim <= 128) return f(zero, std::integral_constant<int, 4>{});
    f(zero, std::integral_constant<int, 8>{});
  });
}

}  // namespace

void run(CudaQueue& queue, const QueryAttentionForward& args) {
  if (is_empty(args)) return;
  const char* name = "query_attention_forward";
  for_width(name, args, [&](auto zero, auto columns) {
    using T = decltype(zero);
    constexpr int C = columns;
    launch(
        queue, {name, {args.batch, args.queries, args.tokens, args.heads, args.head_dim}},
        query_attention_forward_kernel<T, C>,
        {blocks_for(args.batch * args.heads * args.queries, 1), kThreads, WarpResults<C>::kBytes},
        HeadShape(args), static_cast<const T*>(args.q), static_cast<const T*>(args.kv),
        static_cast<T*>(args.out), static_cast<float*>(args.lse), static_cast<float>(args.scale));
  });
}

void run(CudaQueue& queue, const QueryAttentionBackward& args) {
  if (is_empty(args)) return;
  const char* name = "query_attention_backward";
  for_width(name, args, [&](auto zero, auto columns) {
    using T = decltype(zero);
    constexpr int C = columns;
    const std::int64_t bytes = args.queries * BackwardShared<C>::kBytesPerQuery;
    const auto most = static_cast<std::int64_t>(most_shared_bytes());
    DTN_CHECK(bytes <= most, name, ": ", args.queries, " queries of ", args.head_dim,
              " channels; this device takes up to ", most / BackwardShared<C>::kBytesPerQuery);
    const BackwardArrays<T> arrays{
        static_cast<const T*>(args.q),       static_cast<const T*>(args.kv),
        static_cast<const T*>(args.out),     static_cast<const T*>(args.dout),
        static_cast<const float*>(args.lse), static_cast<T*>(args.dq),
        static_cast<T*>(args.dkv),           static_cast<float>(args.scale)};
    launch(queue, {name, {args.batch, args.queries, args.tokens, args.heads, args.head_dim}},
           query_attention_backward_kernel<T, C>,
           {blocks_for(args.batch * args.heads, 1), kThreads, static_cast<std::size_t>(bytes)},
           HeadShape(args), arrays);
  });
}

}  // namespace dtn
