// Forward pass of attention inside groups. A block owns query rows of one head of a unit; keys and
// values stream by. The state of the softmax is the largest score so far and the sum of
// exp(s - largest).
#include "kernels/grouped_attention/grouped_attention_plain.cuh"
#include "kernels/grouped_attention/grouped_attention_tiles.h"

namespace dtn::attention {
namespace {

struct GroupedForward : Plain<kGroupedColumns, 8> {
  static constexpr std::size_t kSharedBytes =
      (kOwnSize + 2 * kStreamSize + kProbabilities) * sizeof(float);
  static_assert(kSharedBytes <= kMinSharedMemory);
};

template <class T>
__global__ void __launch_bounds__(kPlainThreads, kGroupedBlocks)
    grouped_attention_forward_kernel(GroupedShape shape, GroupedInputs<T> in, GroupedRows<T> out,
                                     float* lse) {
  using K = GroupedForward;
  constexpr int R = K::kRows;
  DTN_SHARED(float, own);
  float* keys = own + K::kOwnSize;
  float* values = keys + K::kStreamSize;
  float* shared_p = values + K::kStreamSize;
  const GroupedBlock block = grouped_block(shape);
  const int unit = block.unit, head = block.head, first = block.block * K::kOwnRows;
  const PlainThread at = plain_thread();
  const ScoreTerms terms(shape, unit, head);

  load_unit_rows(own, shape, in.q, unit, head, shape.queries, first, K::kOwnRows, shape.key_dim);
  float acc[R][kGroupedColumns] = {}, largest[R], sum[R];
#pragma unroll
  for (int r = 0; r < R; ++r) largest[r] = -INFINITY, sum[r] = 0;
  for (int key = 0; key < shape.keys; key += kPlainStream) {
    load_unit_rows(keys, shape, in.k, unit, head, shape.keys, key, kPlainStream, shape.key_dim);
    load_unit_rows(values, shape, in.v, unit, head, shape.keys, key, kPlainStream, shape.value_dim);
    __syncthreads();
    float s[R][2];
    dot<kGroupedColumns>(s, own, keys, shape.key_dim);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int query = first + at.group + r * kSharerGroups;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int column = key + at.sharer + j * kSharers;
        float score = s[r][j] * shape.scale;
        if (query < shape.queries && column < shape.keys) score += terms(query, column);
        s[r][j] = column < shape.keys ? score : -INFINITY;
      }
      const float factor = take_scores(s[r], largest[r], sum[r]);
#pragma unroll
      for (int c = 0; c < kGroupedColumns; ++c) acc[r][c] *= factor;
    }
    share(shared_p, s);
    accumulate<kGroupedColumns>(acc, shared_p, values);
    __syncthreads();
  }

  const auto out_rows = unit_rows(shape, out, unit, head, shape.queries, 0);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const float total = sum_of_sharers(sum[r]);
    const int query = first + at.group + r * kSharerGroups;
    if (query >= shape.queries) continue;
    if (at.sharer == 0) lse[block.statistics(shape) + query] = largest[r] + logf(total);
    store_row(out_rows(query), acc[r], 1 / total, shape.value_dim);
  }
}

}  // namespace
}  // namespace dtn::attention

namespace dtn {

void run(CudaQueue& queue, const GroupedAttentionForward& args) {
  using namespace attention;
  const GroupedAttentionProblem& p = args.problem;
  if (attention::is_empty(p)) return;
  if (p.dtype == DType::kBFloat16 && grouped_tiles_forward(queue, args)) return;
  const char* name = "grouped_attention_forward";
  for_cuda_dtype(name, p.dtype, [&](auto zero) {
    using T = decltype(zero);
    GroupedShape shape = grouped_shape<T>(name, p);
    shape.blocks = static_cast<int>(blocks_for(p.queries, GroupedForward::kOwnRows).x);
    launch(queue, {name, {p.batch, p.groups, p.queries, p.keys, p.heads, p.key_dim}},
           grouped_attention_forward_kernel<T>,
           {blocks_for(p.batch * p.groups * p.heads * shape.blocks, 1), kPlainThreads,
            GroupedForward::kSharedBytes},
           shape, grouped_inputs<T>(p), grouped_outputs<T>(p, args.out),
           static_cast<float*>(args.lse));
  });
}

}  // namespace dtn
