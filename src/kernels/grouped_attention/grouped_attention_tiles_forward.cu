// Forward pass of attention inside groups on tensor cores: see grouped_attention_tiles.cuh.
#include "kernels/grouped_attention/grouped_attention_tiles.cuh"
#include "kernels/grouped_attention/grouped_attention_tiles.h"

namespace dtn::attention {
namespace {

// The terms of the softmax's scores for one tile of keys; see RowBias.
struct GroupedTerms {
  static constexpr bool kAny = true;
  GroupedScores<false> scores;
  int to_key;  // key index minus ring position

  __device__ __forceinline__ void add(float (&s)[1][2][4], int row, float) const {
    scores.apply(s[0], to_key + row);
  }
};

template <int DK, int DV>
__global__ void __launch_bounds__(kTileThreads, DK + DV > 96 ? 3 : 4)
    grouped_tiles_forward_kernel(GroupedShape shape, GroupedInputs<bfloat16> in,
                                 GroupedRows<bfloat16> out, float* lse) {
  DTN_SHARED(bfloat16, keys);  // [kRingRows, DK + 8], values [kRingRows, DV + 8]
  bfloat16* values = keys + kGroupedRing<DK>;
  const GroupedWarp warp(shape);
  const int unit = warp.block.unit, head = warp.block.head;
  const UnitSide of_queries(shape, unit, shape.queries), of_keys(shape, unit, shape.keys);

  cuda::AsyncCopies copies;
  const auto stream = [&](int tile, int slot) {
    stream_unit<DK>(copies, keys, slot, in.k, head, tile, of_keys, shape.key_dim);
    stream_unit<DV>(copies, values, slot, in.v, head, tile, of_keys, shape.value_dim);
    copies.commit();
  };
  RunOfTiles tiles{0, (shape.keys + kTileRows - 1) / kTileRows};
  const int first_tile = tiles.next();
  stream(first_tile, 0);
  unsigned q[1][DK / 16][4];
  load_unit<DK>(q[0], in.q, head, warp.first, of_queries, shape.key_dim);
  GroupedTerms terms{{shape, unit, head, warp.first}, 0};
  OnlineSoftmax<DK, 1, GroupedTerms, DV> softmax;
  for_tiles(copies, first_tile, tiles, stream, [&](int tile, int slot) {
    if (warp.first >= shape.queries) return;
    terms.to_key = (tile - slot) * kTileRows;
#pragma unroll 1
    for (int row = 0; row < kTileRows && tile * kTileRows + row < shape.keys; row += 32) {
      const int at = slot * kTileRows + row;
      softmax.template step<2>(q, keys + at * kRowStride<DK>, values + at * kRowStride<DV>, 32, 1,
                               terms, at, AllWeights());
    }
  });

  if (warp.first >= shape.queries) return;
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = softmax.sum[0][half];
    sum += __shfl_xor_sync(cuda::kWholeWarp, sum, 1);
    sum += __shfl_xor_sync(cuda::kWholeWarp, sum, 2);
    inverse[half] = 1 / sum;
    const int query = warp.first + this_lane().g + 8 * half;
    if (this_lane().t == 0 && query < shape.queries) {
      lse[warp.block.statistics(shape) + query] = softmax.shift[0][half] * kLn2 + logf(sum);
    }
  }
  store_unit<DV>(softmax.acc[0], inverse, values + warp.index * 16 * kRowStride<DV>, out, head,
                 warp.first, of_queries, shape.value_dim);
}

}  // namespace

bool grouped_tiles_forward(CudaQueue& queue, const GroupedAttentionForward& args) {
  const GroupedAttentionProblem& p = args.problem;
  const char* name = "grouped_tiles_forward";
  GroupedShape shape = grouped_shape<bfloat16>(name, p);
  const auto out = grouped_outputs<bfloat16>(p, args.out);
  if (!shape.aligned || !is_vectorizable(out, p.value_dim)) return false;
  return for_grouped_heads(p.key_dim, p.value_dim, [&](auto dk, auto dv) {
    constexpr int DK = dk, DV = dv;
    shape.blocks = static_cast<int>(blocks_for(p.queries, kTileRows).x);
    launch(queue, {name, {p.batch, p.groups, p.queries, p.keys, p.heads, p.key_dim}},
           grouped_tiles_forward_kernel<DK, DV>,
           {blocks_for(p.batch * p.groups * p.heads * shape.blocks, 1), kTileThreads,
            (kGroupedRing<DK> + kGroupedRing<DV>)*sizeof(bfloat16)},
           shape, grouped_inputs<bfloat16>(p), out, static_cast<float*>(args.lse));
  });
}

}  // namespace dtn::attention
