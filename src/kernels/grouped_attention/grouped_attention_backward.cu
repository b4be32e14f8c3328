// Backward pass of attention inside groups, in three kernels that each compute the scores again.
// The first computes dq and the row statistics by rows of queries, the second dk and dv by rows of
// keys. The third computes the gradient of the bias by tiles of one head's scores; each tile loops
// over the units. All sums have a fixed order.
#include "kernels/grouped_attention/grouped_attention_plain.cuh"
#include "kernels/grouped_attention/grouped_attention_tiles.h"

namespace dtn::attention {
namespace {

// Shared memory: two owned arrays, two streamed ones, p, and the statistics of streamed queries.
struct GroupedBackward : Plain<kGroupedColumns, 8> {
  static constexpr std::size_t kSharedBytes =
      (2 * kOwnSize + 2 * kStreamSize + kProbabilities) * sizeof(float) +
      kPlainStream * sizeof(RowStatistics);
  static_assert(kSharedBytes <= kMinSharedMemory);
};

template <class T>
struct GroupedArrays {
  GroupedInputs<T> in;
  GroupedRows<const T> out, dout;
  GroupedRows<T> dq, dk, dv;
  const float* lse;
  RowStatistics* statistics;  // [B, G, H, queries]
};

template <class T>
__global__ void __launch_bounds__(kPlainThreads, kGroupedBlocks)
    grouped_attention_backward_queries_kernel(GroupedShape shape, GroupedArrays<T> arrays) {
  using K = GroupedBackward;
  constexpr int R = K::kRows;
  DTN_SHARED(float, queries);
  float* douts = queries + K::kOwnSize;
  float* keys = douts + K::kOwnSize;
  float* values = keys + K::kStreamSize;
  float* shared_ds = values + K::kStreamSize;
  const GroupedBlock block = grouped_block(shape);
  const int unit = block.unit, head = block.head, first = block.block * K::kOwnRows;
  const PlainThread at = plain_thread();
  const ScoreTerms terms(shape, unit, head);

  load_unit_rows(queries, shape, arrays.in.q, unit, head, shape.queries, first, K::kOwnRows,
                 shape.key_dim);
  load_unit_rows(douts, shape, arrays.dout, unit, head, shape.queries, first, K::kOwnRows,
                 shape.value_dim);
  __syncthreads();
  const auto out_rows = unit_rows(shape, arrays.out, unit, head, shape.queries, 0);
  RowStatistics own[R];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int in_block = at.group + r * kSharerGroups, query = first + in_block;
    const bool inside = query < shape.queries;
    float delta = 0;
    for (int d = at.sharer; inside && d < shape.value_dim; d += kSharers) {
      delta = fmaf(douts[in_block * K::kStride + d], cuda::to_float(out_rows(query)[d]), delta);
    }
    const std::int64_t row = block.statistics(shape) + query;
    own[r] = {inside ? arrays.lse[row] : 0.0f, sum_of_sharers(delta)};
    if (inside && at.sharer == 0) arrays.statistics[row] = own[r];
  }

  float dq[R][kGroupedColumns] = {};
  for (int key = 0; key < shape.keys; key += kPlainStream) {
    load_unit_rows(keys, shape, arrays.in.k, unit, head, shape.keys, key, kPlainStream,
                   shape.key_dim);
    load_unit_rows(values, shape, arrays.in.v, unit, head, shape.keys, key, kPlainStream,
                   shape.value_dim);
    __syncthreads();
    float s[R][2], dp[R][2];
    dot<kGroupedColumns>(s, queries, keys, shape.key_dim);
    dot<kGroupedColumns>(dp, douts, values, shape.value_dim);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int query = first + at.group + r * kSharerGroups;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int column = key + at.sharer + j * kSharers;
        const bool there = query < shape.queries && column < shape.keys;
        const float shift = there ? terms(query, column) - own[r].lse : 0.0f;
        const float p = expf(fmaf(s[r][j], shape.scale, shift));
        dp[r][j] = there ? p * (dp[r][j] - own[r].delta) : 0.0f;
      }
    }
    share(shared_ds, dp);
    accumulate<kGroupedColumns>(dq, shared_ds, keys);
    __syncthreads();
  }

  const auto dq_rows = unit_rows(shape, arrays.dq, unit, head, shape.queries, 0);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int query = first + at.group + r * kSharerGroups;
    if (query < shape.queries) store_row(dq_rows(query), dq[r], shape.scale, shape.key_dim);
  }
}

template <class T>
__global__ void __launch_bounds__(kPlainThreads, kGroupedBlocks)
    grouped_attention_backward_keys_kernel(GroupedShape shape, GroupedArrays<T> arrays) {
  using K = GroupedBackward;
  constexpr int R = K::kRows;
  DTN_SHARED(float, keys);
  float* values = keys + K::kOwnSize;
  float* queries = values + K::kOwnSize;
  float* douts = queries + K::kStreamSize;
  float* shared_p = douts + K::kStreamSize;
  auto* statistics = reinterpret_cast<RowStatistics*>(shared_p + K::kProbabilities);
  const GroupedBlock block = grouped_block(shape);
  const int unit = block.unit, head = block.head, first = block.block * K::kOwnRows;
  const PlainThread at = plain_thread();
  const ScoreTerms terms(shape, unit, head);

  load_unit_rows(keys, shape, arrays.in.k, unit, head, shape.keys, first, K::kOwnRows,
                 shape.key_dim);
  load_unit_rows(values, shape, arrays.in.v, unit, head, shape.keys, first, K::kOwnRows,
                 shape.value_dim);
  float dk[R][kGroupedColumns] = {}, dv[R][kGroupedColumns] = {};
  for (int query = 0; query < shape.queries; query += kPlainStream) {
    load_unit_rows(queries, shape, arrays.in.q, unit, head, shape.queries, query, kPlainStream,
                   shape.key_dim);
    load_unit_rows(douts, shape, arrays.dout, unit, head, shape.queries, query, kPlainStream,
                   shape.value_dim);
    if (const int row = static_cast<int>(threadIdx.x);
        row < kPlainStream && query + row < shape.queries) {
      statistics[row] = arrays.statistics[block.statistics(shape) + query + row];
    }
    __syncthreads();
    float s[R][2], dp[R][2];
    dot<kGroupedColumns>(s, keys, queries, shape.key_dim);
    dot<kGroupedColumns>(dp, values, douts, shape.value_dim);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int row = query + at.sharer + j * kSharers;
      const RowStatistics of_row = statistics[at.sharer + j * kSharers];
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int key = first + at.group + r * kSharerGroups;
        const bool there = row < shape.queries && key < shape.keys;
        const float shift = there ? terms(row, key) - of_row.lse : 0.0f;
        const float p = expf(fmaf(s[r][j], shape.scale, shift));
        s[r][j] = there ? p : 0.0f;
        dp[r][j] = there ? p * (dp[r][j] - of_row.delta) : 0.0f;
      }
    }
    share(shared_p, s);
    accumulate<kGroupedColumns>(dv, shared_p, douts);
    share(shared_p, dp);
    accumulate<kGroupedColumns>(dk, shared_p, queries);
    __syncthreads();
  }

  const auto dk_rows = unit_rows(shape, arrays.dk, unit, head, shape.keys, 0);
  const auto dv_rows = unit_rows(shape, arrays.dv, unit, head, shape.keys, 0);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int key = first + at.group + r * kSharerGroups;
    if (key >= shape.keys) continue;
    store_row(dk_rows(key), dk[r], shape.scale, shape.key_dim);
    store_row(dv_rows(key), dv[r], 1.0f, shape.value_dim);
  }
}

template <class T>
__global__ void __launch_bounds__(kPlainThreads, kGroupedBlocks)
    grouped_attention_backward_bias_kernel(GroupedShape shape, GroupedArrays<T> arrays,
                                           BiasTiles tiles) {
  using K = GroupedBackward;
  constexpr int R = K::kRows;
  DTN_SHARED(float, queries);
  float* douts = queries + K::kOwnSize;
  float* keys = douts + K::kOwnSize;
  float* values = keys + K::kStreamSize;
  int index = static_cast<int>(blockIdx.x);
  const int first_key = index % tiles.key_tiles * kPlainStream;
  index /= tiles.key_tiles;
  const int first_query = index % tiles.query_tiles * K::kOwnRows;
  index /= tiles.query_tiles;
  const int head = index % shape.heads, run = index / shape.heads;
  const PlainThread at = plain_thread();

  float sum[R][2] = {};
  for (int i = 0; i < tiles.run; ++i) {
    const int unit = run * tiles.run + i;
    if (unit >= tiles.units) break;
    const ScoreTerms terms(shape, unit, head);
    load_unit_rows(queries, shape, arrays.in.q, unit, head, shape.queries, first_query, K::kOwnRows,
                   shape.key_dim);
    load_unit_rows(douts, shape, arrays.dout, unit, head, shape.queries, first_query, K::kOwnRows,
                   shape.value_dim);
    load_unit_rows(keys, shape, arrays.in.k, unit, head, shape.keys, first_key, kPlainStream,
                   shape.key_dim);
    load_unit_rows(values, shape, arrays.in.v, unit, head, shape.keys, first_key, kPlainStream,
                   shape.value_dim);
    __syncthreads();
    float s[R][2], dp[R][2];
    dot<kGroupedColumns>(s, queries, keys, shape.key_dim);
    dot<kGroupedColumns>(dp, douts, values, shape.value_dim);
    const RowStatistics* rows = arrays.statistics + GroupedBlock{unit, head, 0}.statistics(shape);
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

  float* to = tiles.partial +
              (static_cast<std::int64_t>(run) * shape.heads + head) * shape.queries * shape.keys;
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

}  // namespace
}  // namespace dtn::attention

namespace dtn {

void run(CudaQueue& queue, const GroupedAttentionBackward& args) {
  using namespace attention;
  const GroupedAttentionProblem& p = args.problem;
  if (attention::is_empty(p)) return;
  const std::int64_t units = p.batch * p.groups;
  const auto statistics = queue.scratch<RowStatistics>(units * p.heads * p.queries);
  if (p.dtype == DType::kBFloat16 && grouped_tiles_backward(queue, args, statistics.get())) return;
  const char* name = "grouped_attention_backward";
  for_cuda_dtype(name, p.dtype, [&](auto zero) {
    using T = decltype(zero);
    const GroupedArrays<T> arrays{grouped_inputs<T>(p),
                                  grouped_outputs<T>(p, args.out),
                                  grouped_outputs<T>(p, args.dout),
                                  grouped_rows<T>(args.dq),
                                  grouped_rows<T>(args.dk),
                                  grouped_rows<T>(args.dv),
                                  static_cast<const float*>(args.lse),
                                  statistics.get()};
    GroupedShape shape = grouped_shape<T>(name, p);
    shape.aligned &= is_vectorizable(arrays.dout, p.value_dim);
    auto start = [&](const char* part, auto kernel, std::int64_t rows) {
      shape.blocks = static_cast<int>(blocks_for(rows, GroupedBackward::kOwnRows).x);
      launch(queue, grouped_kernel_name(part, p), kernel,
             {blocks_for(units * p.heads * shape.blocks, 1), kPlainThreads,
              GroupedBackward::kSharedBytes},
             shape, arrays);
    };
    start("grouped_attention_backward_queries", grouped_attention_backward_queries_kernel<T>,
          p.queries);
    start("grouped_attention_backward_keys", grouped_attention_backward_keys_kernel<T>, p.keys);
    if (!p.bias || !args.dbias) return;
    sum_bias_tiles(queue, p, GroupedBackward::kOwnRows, kPlainStream,
                   static_cast<float*>(args.dbias), [&](const BiasTiles& tiles, dim3 blocks) {
                     launch(queue, grouped_kernel_name("grouped_attention_backward_bias", p),
                            grouped_attention_backward_bias_kernel<T>,
                            {blocks, kPlainThreads, GroupedBackward::kSharedBytes}, shape, arrays,
                            tiles);
                   });
  });
}

}  // namespace dtn
