// Backward pass on CUDA cores: the two kernels of the tensor-core path, in float32. The first
// computes dq and the row statistics by rows of queries, the second dk and dv by rows of keys.
// Inside groups a third kernel computes the gradient of the bias by tiles of one head's scores;
// each tile loops over the units. Each kernel computes the scores again. All sums have a fixed
// order.
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

// Blocks per multiprocessor, for the launch bounds. With 0 the compiler decides; with a bias,
// inside groups, or for wide heads, it would then use fewer registers than it needs.
template <int C, class Terms>
inline constexpr int kQueriesBlocks = kIsGrouped<Terms> ? 2
                                      : !Terms::kBiased ? 0
                                      : C <= 8          ? 3
                                                        : 2;
template <int C, class Terms>
inline constexpr int kKeysBlocks = C > 8 || kIsGrouped<Terms> ? 2 : 0;

template <class T, int C, class Terms>
__global__ void __launch_bounds__(kPlainThreads, kQueriesBlocks<C, Terms>)
    attention_plain_backward_queries_kernel(GroupedShape shape, GroupedBackwardArrays<T> arrays,
                                            Terms terms) {
  using K = PlainBackward<C>;
  constexpr int R = K::kRows;
  constexpr bool kGrouped = kIsGrouped<Terms>;
  DTN_SHARED(float, queries);
  float* douts = queries + K::kOwnSize;
  float* keys = douts + K::kOwnSize;
  float* values = keys + K::kStreamSize;
  float* shared_ds = values + K::kStreamSize;
  const BlockHead head = block_head(shape);
  const int first = head.block * K::kOwnRows;
  const PlainThread at = plain_thread();

  load_rows<C, kGrouped>(queries, shape, arrays.in.q, head, shape.queries, first, K::kOwnRows,
                         shape.key_dim);
  load_rows<C, kGrouped>(douts, shape, arrays.dout, head, shape.queries, first, K::kOwnRows,
                         shape.value_dim);
  __syncthreads();
  const auto out_rows = unit_rows<kGrouped>(shape, arrays.out, head, shape.queries);
  RowStatistics own[R];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int in_block = at.group + r * kSharerGroups;
    const bool inside = first + in_block < shape.queries;
    float delta = 0;
    for (int d = at.sharer; inside && d < shape.value_dim; d += kSharers) {
      delta = fmaf(douts[in_block * K::kStride + d], cuda::to_float(out_rows(first + in_block)[d]),
                   delta);
    }
    const std::int64_t row = shape.row(head) + first + in_block;
    own[r] = {inside ? arrays.lse[row] : kNoRow<Terms::kBiased>, sum_of_sharers(delta)};
    if (inside && at.sharer == 0) arrays.statistics[row] = own[r];
  }

  ThreadTerms<Terms, R, true> of_thread(terms, shape, head, first + at.group);
  float dq[R][C] = {};
  for (int key = 0; key < shape.keys; key += kPlainStream) {
    load_rows<C, kGrouped>(keys, shape, arrays.in.k, head, shape.keys, key, kPlainStream,
                           shape.key_dim);
    load_rows<C, kGrouped>(values, shape, arrays.in.v, head, shape.keys, key, kPlainStream,
                           shape.value_dim);
    __syncthreads();
    float s[R][2], dp[R][2];
    dot<C>(s, queries, keys, shape.key_dim);
    dot<C>(dp, douts, values, shape.value_dim);
    const auto streamed = of_thread.streamed(key + at.sharer);
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float shift = of_thread.add_to(-own[r].lse, r, streamed, j);
        const float p = expf(fmaf(s[r][j], shape.scale, shift));
        const bool there = key + at.sharer + j * kSharers < shape.keys;
        dp[r][j] = there ? p * (dp[r][j] - own[r].delta) : 0.0f;
        of_thread.take(dp[r][j], r, streamed, j);
      }
    }
    share(shared_ds, dp);
    accumulate<C>(dq, shared_ds, keys);
    __syncthreads();
  }
  of_thread.store_gradient(shape, head);

  const auto dq_rows = unit_rows<kGrouped>(shape, arrays.dq, head, shape.queries);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int row = first + at.group + r * kSharerGroups;
    if (row >= shape.queries) continue;
    store_row(dq_rows(row), dq[r], shape.scale, shape.key_dim);
  }
}

template <class T, int C, class Terms>
__global__ void __launch_bounds__(kPlainThreads, kKeysBlocks<C, Terms>)
    attention_plain_backward_keys_kernel(GroupedShape shape, GroupedBackwardArrays<T> arrays,
                                         Terms terms) {
  using K = PlainBackward<C>;
  constexpr int R = K::kRows;
  constexpr bool kGrouped = kIsGrouped<Terms>;
  DTN_SHARED(float, keys);
  float* values = keys + K::kOwnSize;
  float* queries = values + K::kOwnSize;
  float* douts = queries + K::kStreamSize;
  float* shared_p = douts + K::kStreamSize;
  auto* statistics = reinterpret_cast<RowStatistics*>(shared_p + K::kProbabilities);
  const BlockHead head = block_head(shape);
  const int first = head.block * K::kOwnRows;
  const PlainThread at = plain_thread();

  load_rows<C, kGrouped>(keys, shape, arrays.in.k, head, shape.keys, first, K::kOwnRows,
                         shape.key_dim);
  load_rows<C, kGrouped>(values, shape, arrays.in.v, head, shape.keys, first, K::kOwnRows,
                         shape.value_dim);
  const ThreadTerms<Terms, R, false> of_thread(terms, shape, head, first + at.group);
  float dk[R][C] = {}, dv[R][C] = {};
  for (int query = 0; query < shape.queries; query += kPlainStream) {
    load_rows<C, kGrouped>(queries, shape, arrays.in.q, head, shape.queries, query, kPlainStream,
                           shape.key_dim);
    load_rows<C, kGrouped>(douts, shape, arrays.dout, head, shape.queries, query, kPlainStream,
                           shape.value_dim);
    if (const int row = static_cast<int>(threadIdx.x);
        row < kPlainStream && query + row < shape.queries) {
      statistics[row] = arrays.statistics[shape.row(head) + query + row];
    }
    __syncthreads();
    float s[R][2], dp[R][2];
    dot<C>(s, keys, queries, shape.key_dim);
    dot<C>(dp, values, douts, shape.value_dim);
    const auto streamed = of_thread.streamed(query + at.sharer);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const RowStatistics row = statistics[at.sharer + j * kSharers];
      const bool there = query + at.sharer + j * kSharers < shape.queries;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const float shift = of_thread.add_to(-row.lse, r, streamed, j);
        const float p = expf(fmaf(s[r][j], shape.scale, shift));
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

  const auto dk_rows = unit_rows<kGrouped>(shape, arrays.dk, head, shape.keys);
  const auto dv_rows = unit_rows<kGrouped>(shape, arrays.dv, head, shape.keys);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int row = first + at.group + r * kSharerGroups;
    if (row >= shape.keys) continue;
    store_row(dk_rows(row), dk[r], shape.scale, shape.key_dim);
    store_row(dv_rows(row), dv[r], 1.0f, shape.value_dim);
  }
}

template <class T, int C>
__global__ void __launch_bounds__(kPlainThreads, 2)
    attention_plain_backward_bias_kernel(GroupedShape shape, GroupedBackwardArrays<T> arrays,
                                         BiasTiles tiles) {
  using K = PlainBackward<C>;
  constexpr int R = K::kRows;
  DTN_SHARED(float, queries);
  float* douts = queries + K::kOwnSize;
  float* keys = douts + K::kOwnSize;
  float* values = keys + K::kStreamSize;
  const BiasTile tile(tiles, shape);
  const int first_query = tile.query_tile * K::kOwnRows, first_key = tile.key_tile * kPlainStream;
  const PlainThread at = plain_thread();

  float sum[R][2] = {};
  for (int unit = tile.first_unit(tiles); unit < tile.end_unit(tiles); ++unit) {
    const BlockHead head{unit, tile.head, 0};
    const ScoreTerms terms(shape, head);
    load_rows<C, true>(queries, shape, arrays.in.q, head, shape.queries, first_query, K::kOwnRows,
                       shape.key_dim);
    load_rows<C, true>(douts, shape, arrays.dout, head, shape.queries, first_query, K::kOwnRows,
                       shape.value_dim);
    load_rows<C, true>(keys, shape, arrays.in.k, head, shape.keys, first_key, kPlainStream,
                       shape.key_dim);
    load_rows<C, true>(values, shape, arrays.in.v, head, shape.keys, first_key, kPlainStream,
                       shape.value_dim);
    __syncthreads();
    float s[R][2], dp[R][2];
    dot<C>(s, queries, keys, shape.key_dim);
    dot<C>(dp, douts, values, shape.value_dim);
    const RowStatistics* rows = arrays.statistics + shape.row(head);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int query = first_query + at.group + r * kSharerGroups;
      if (query >= shape.queries) continue;
      const RowStatistics row = rows[query];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int key = first_key + at.sharer + j * kSharers;
        if (key >= shape.keys) continue;
        const float p = expf(fmaf(s[r][j], shape.scale, terms(query, key) - row.lse));
        sum[r][j] += p * (dp[r][j] - row.delta);
      }
    }
    __syncthreads();
  }

  float* to = tile.partial(tiles, shape);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int query = first_query + at.group + r * kSharerGroups;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int key = first_key + at.sharer + j * kSharers;
      if (query >= shape.queries || key >= shape.keys) continue;
      to[static_cast<std::int64_t>(query) * shape.keys + key] = sum[r][j];
    }
  }
}

// One call of the backward pass.
template <class T, int C>
struct PlainCall {
  using K = PlainBackward<C>;
  CudaQueue& queue;
  const GroupedAttentionBackward& args;
  GroupedBackwardArrays<T> arrays;
  GroupedShape shape;

  PlainCall(CudaQueue& on, const GroupedAttentionBackward& of, RowStatistics* statistics)
      : queue(on),
        args(of),
        arrays(grouped_backward_arrays<T>(of, statistics)),
        shape(grouped_shape<T>(of.problem)) {
    shape.aligned &= is_vectorizable(arrays.dout, of.problem.value_dim);
  }

  template <class Terms>
  void start_queries(const KernelName& name, const Terms& terms) const {
    start(name, attention_plain_backward_queries_kernel<T, C, Terms>, args.problem.queries, terms);
  }
  template <class Terms>
  void start_keys(const KernelName& name, const Terms& terms) const {
    start(name, attention_plain_backward_keys_kernel<T, C, Terms>, args.problem.keys, terms);
  }
  void start_bias(const char* name) const {
    sum_bias_tiles(queue, args, K::kOwnRows, kPlainStream, name,
                   attention_plain_backward_bias_kernel<T, C>, {{}, kPlainThreads, K::kSharedBytes},
                   shape, arrays);
  }

 private:
  template <class Kernel, class Terms>
  void start(const KernelName& name, Kernel kernel, std::int64_t rows, const Terms& terms) const {
    launch_for_units(queue, name, kernel, kPlainThreads, K::kSharedBytes, shape, args.problem, rows,
                     K::kOwnRows, arrays, terms);
  }
};

// The arguments of attention over whole samples as a problem of one group.
GroupedAttentionBackward as_grouped(const AttentionBackward& args) {
  GroupedAttentionBackward one{one_group(args), args.out, args.lse, args.dout, {}, {}, {}, nullptr};
  const auto of = [&](const HeadsOfRows<const void*>& part) {
    return HeadsOfRows<void*>{args.dqkv, part.ld, part.first, part.stride};
  };
  one.dq = of(one.problem.q), one.dk = of(one.problem.k), one.dv = of(one.problem.v);
  return one;
}

}  // namespace

void plain_backward(CudaQueue& queue, const AttentionBackward& args, RowStatistics* statistics) {
  const GroupedAttentionBackward grouped = as_grouped(args);
  for_plain("attention_backward", args.dtype, args.head_dim, [&](auto zero, auto columns) {
    const PlainCall<decltype(zero), columns> call(queue, grouped, statistics);
    const auto named = [&](const char* name) {
      return KernelName{name, {args.batch, args.tokens, args.heads, args.head_dim}};
    };
    for_bias(args, [&](const auto& bias) {
      const std::int64_t blocks = blocks_for(args.tokens, PlainBackward<columns>::kOwnRows).x;
      with_bias_gradient(queue, args, bias, blocks * (kPlainThreads / cuda::kWarpSize),
                         [&](const auto& grid) {
                           call.start_queries(named("attention_plain_backward_queries"), grid);
                         });
      call.start_keys(named("attention_plain_backward_keys"), bias);
    });
  });
}

void grouped_plain_backward(CudaQueue& queue, const GroupedAttentionBackward& args,
                            RowStatistics* statistics) {
  const GroupedAttentionProblem& p = args.problem;
  for_grouped_plain("grouped_attention_backward", p, [&](auto zero, auto columns) {
    const PlainCall<decltype(zero), columns> call(queue, args, statistics);
    call.start_queries(grouped_kernel_name("grouped_attention_backward_queries", p), GroupTerms());
    call.start_keys(grouped_kernel_name("grouped_attention_backward_keys", p), GroupTerms());
    call.start_bias("grouped_attention_backward_bias");
  });
}

}  // namespace dtn::attention
