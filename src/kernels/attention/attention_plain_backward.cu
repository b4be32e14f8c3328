// Backward pass on CUDA cores: the two kernels of the tensor-core path, in float32. The first
// computes dq and the row statistics by rows of queries, the second dk and dv by rows of keys.
#include "kernels/attention/attention_plain.cuh"

namespace dtn::attention {
namespace {

// Shared memory: two owned arrays, two streamed ones, p, and the statistics of streamed queries.
template <int C>
struct PlainBackward : Plain<C, C <= 4    ? 8
                                : C <= 8  ? 4
                                : C <= 12 ? 2
                                          : 1> {
  using K = PlainBackward;
  static constexpr std::size_t kSharedBytes =
      (2 * K::kOwnSize + 2 * K::kStreamSize + K::kProbabilities) * sizeof(float) +
      kPlainStream * sizeof(RowStatistics);
  static_assert(kSharedBytes <= kMinSharedMemory);
};

// Blocks per multiprocessor, for the launch bounds. With 0 the compiler decides; with a bias, or
// for wide heads, it would then use fewer registers than it needs.
template <int C, bool kBiased>
inline constexpr int kQueriesBlocks = !kBiased ? 0
                                      : C <= 8 ? 3
                                               : 2;
template <int C, bool kBiased>
inline constexpr int kKeysBlocks = C > 8 ? 2 : 0;

template <class T>
struct PlainArrays {
  const T *qkv, *out, *dout;
  const float* lse;
  T* dqkv;
  RowStatistics* statistics;  // [B, H, T]
  float scale;
};

template <class T, int C, bool kBiased>
__global__ void __launch_bounds__(kPlainThreads, kQueriesBlocks<C, kBiased>)
    attention_plain_backward_queries_kernel(HeadShape shape, PlainArrays<T> arrays,
                                            GridBias<kBiased> grid) {
  using K = PlainBackward<C>;
  constexpr int R = K::kRows;
  DTN_SHARED(float, queries);
  float* douts = queries + K::kOwnSize;
  float* keys = douts + K::kOwnSize;
  float* values = keys + K::kStreamSize;
  float* shared_ds = values + K::kStreamSize;
  BlockHead head = block_head(shape);
  const T* from = arrays.qkv + head.qkv(shape);
  const T* out = arrays.out + head.out(shape);
  int first = head.block * K::kOwnRows;
  PlainThread at = plain_thread();

  load_rows<C>(queries, from, shape.qkv_stride, first, K::kOwnRows, shape);
  load_rows<C>(douts, arrays.dout + head.out(shape), shape.out_stride, first, K::kOwnRows, shape);
  __syncthreads();
  RowStatistics own[R];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    int in_block = at.group + r * kSharerGroups, row = first + in_block;
    bool inside = row < shape.tokens;
    float delta = 0;
    for (int d = at.sharer; inside && d < shape.dim; d += kSharers) {
      delta = fmaf(douts[in_block * K::kStride + d],
                   cuda::to_float(out[row * shape.out_stride + d]), delta);
    }
    own[r] = {inside ? arrays.lse[head.row(shape) + row] : kNoRow<kBiased>, sum_of_sharers(delta)};
    if (inside && at.sharer == 0) arrays.statistics[head.row(shape) + row] = own[r];
  }

  [[maybe_unused]] HeadBias<kBiased> bias(grid, head);
  [[maybe_unused]] Places<kBiased, R> own_places(grid, first + at.group, kSharerGroups);
  [[maybe_unused]] BiasGradient<kBiased> dbias;
  float dq[R][C] = {};
  for (int key = 0; key < shape.tokens; key += kPlainStream) {
    load_rows<C>(keys, from + shape.out_stride, shape.qkv_stride, key, kPlainStream, shape);
    load_rows<C>(values, from + 2 * shape.out_stride, shape.qkv_stride, key, kPlainStream, shape);
    __syncthreads();
    float s[R][2], dp[R][2];
    dot<C>(s, queries, keys, shape.dim);
    dot<C>(dp, douts, values, shape.dim);
    [[maybe_unused]] Places<kBiased, 2> streamed(grid, key + at.sharer, kSharers);
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float shift = -own[r].lse;
        if constexpr (kBiased) shift += bias(own_places.at[r], streamed.at[j]);
        float p = expf(fmaf(s[r][j], arrays.scale, shift));
        bool there = key + at.sharer + j * kSharers < shape.tokens;
        dp[r][j] = there ? p * (dp[r][j] - own[r].delta) : 0.0f;
        if constexpr (kBiased) dbias.take(dp[r][j], own_places.at[r], streamed.at[j]);
      }
    }
    share(shared_ds, dp);
    accumulate<C>(dq, shared_ds, keys);
    __syncthreads();
  }
  dbias.store(grid, shape, head);

#pragma unroll
  for (int r = 0; r < R; ++r) {
    int row = first + at.group + r * kSharerGroups;
    if (row >= shape.tokens) continue;
    store_row(arrays.dqkv + head.qkv(shape) + row * shape.qkv_stride, dq[r], arrays.scale,
              shape.dim);
  }
}

template <class T, int C, bool kBiased>
__global__ void __launch_bounds__(kPlainThreads, kKeysBlocks<C, kBiased>)
    attention_plain_backward_keys_kernel(HeadShape shape, PlainArrays<T> arrays,
                                         GridBias<kBiased> grid) {
  using K = PlainBackward<C>;
  constexpr int R = K::kRows;
  DTN_SHARED(float, keys);
  float* values = keys + K::kOwnSize;
  float* queries = values + K::kOwnSize;
  float* douts = queries + K::kStreamSize;
  float* shared_p = douts + K::kStreamSize;
  auto* statistics = reinterpret_cast<RowStatistics*>(shared_p + K::kProbabilities);
  BlockHead head = block_head(shape);
  const T* from = arrays.qkv + head.qkv(shape);
  int first = head.block * K::kOwnRows;
  PlainThread at = plain_thread();

  load_rows<C>(keys, from + shape.out_stride, shape.qkv_stride, first, K::kOwnRows, shape);
  load_rows<C>(values, from + 2 * shape.out_stride, shape.qkv_stride, first, K::kOwnRows, shape);
  [[maybe_unused]] HeadBias<kBiased> bias(grid, head);
  [[maybe_unused]] Places<kBiased, R> own_places(grid, first + at.group, kSharerGroups);
  float dk[R][C] = {}, dv[R][C] = {};
  for (int query = 0; query < shape.tokens; query += kPlainStream) {
    load_rows<C>(queries, from, shape.qkv_stride, query, kPlainStream, shape);
    load_rows<C>(douts, arrays.dout + head.out(shape), shape.out_stride, query, kPlainStream,
                 shape);
    if (int row = static_cast<int>(threadIdx.x); row < kPlainStream && query + row < shape.tokens) {
      statistics[row] = arrays.statistics[head.row(shape) + query + row];
    }
    __syncthreads();
    float s[R][2], dp[R][2];
    dot<C>(s, keys, queries, shape.dim);
    dot<C>(dp, values, douts, shape.dim);
    [[maybe_unused]] Places<kBiased, 2> streamed(grid, query + at.sharer, kSharers);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      RowStatistics row = statistics[at.sharer + j * kSharers];
      bool there = query + at.sharer + j * kSharers < shape.tokens;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        float shift = -row.lse;
        if constexpr (kBiased) shift += bias(streamed.at[j], own_places.at[r]);
        float p = expf(fmaf(s[r][j], arrays.scale, shift));
        s[r][j] = there ? p : 0.0f;
        dp[r][j] = there ? p * (dp[r][j] - row.delta) : 0.0f;
      }
    }
    share(shared_p, s);
    accumulate<C>(dv, shared_p, douts);
    share(shared_p, dp);
    accumulate<C>(dk, shared_p, queries);
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < R; ++r) {
    int row = first + at.group + r * kSharerGroups;
    if (row >= shape.tokens) continue;
    T* to = arrays.dqkv + head.qkv(shape) + shape.out_stride + row * shape.qkv_stride;
    store_row(to, dk[r], arrays.scale, shape.dim);
    store_row(to + shape.out_stride, dv[r], 1.0f, shape.dim);
  }
}

}  // namespace

void plain_backward(CudaQueue& queue, const AttentionBackward& args, RowStatistics* statistics) {
  for_plain("attention_backward", args.dtype, args.head_dim, [&](auto zero, auto columns) {
    using T = decltype(zero);
    constexpr int C = columns;
    using K = PlainBackward<C>;
    PlainArrays<T> arrays{static_cast<const T*>(args.qkv),  static_cast<const T*>(args.out),
                          static_cast<const T*>(args.dout), static_cast<const float*>(args.lse),
                          static_cast<T*>(args.dqkv),       statistics,
                          static_cast<float>(args.scale)};
    HeadShape shape = head_shape(args);
    shape.aligned = cuda::is_vectorizable<T>(args.qkv, args.head_dim) &&
                    cuda::is_vectorizable<T>(args.dout, args.head_dim);
    shape.blocks = static_cast<int>(blocks_for(args.tokens, K::kOwnRows).x);
    for_bias(args, [&](auto bias) {
      constexpr bool kBiased = decltype(bias)::kBiased;
      auto start = [&](const char* name, auto kernel, const GridBias<kBiased>& grid) {
        for_head_grids(shape, args.batch, [&](dim3 blocks) {
          launch(queue, {name, {args.batch, args.tokens, args.heads, args.head_dim}}, kernel,
                 {blocks, kPlainThreads, K::kSharedBytes}, shape, arrays, grid);
        });
      };
      constexpr int kWarps = kPlainThreads / cuda::kWarpSize;
      with_bias_gradient(queue, args, bias, shape.blocks * kWarps, [&](const auto& grid) {
        start("attention_plain_backward_queries",
              attention_plain_backward_queries_kernel<T, C, kBiased>, grid);
      });
      start("attention_plain_backward_keys", attention_plain_backward_keys_kernel<T, C, kBiased>,
            bias);
    });
  });
}

}  // namespace dtn::attention
