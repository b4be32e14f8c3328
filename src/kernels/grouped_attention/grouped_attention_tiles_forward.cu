// Forward pass of attention inside groups on tensor cores: see grouped_attention_tiles.cuh.
#include "kernels/grouped_attention/grouped_attention_tiles.cuh"

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

  cuda::AsyncCopies copies;
  const auto stream = [&](int tile, int slot) {
    stream_gathered<DK>(copies, keys, slot, tile, shape.keys, shape.key_dim,
                        unit_rows<true>(shape, in.k, warp.head, shape.keys));
    stream_gathered<DV>(copies, values, slot, tile, shape.keys, shape.value_dim,
                        unit_rows<true>(shape, in.v, warp.head, shape.keys));
    copies.commit();
  };
  RunOfTiles tiles{0, (shape.keys + kTileRows - 1) / kTileRows};
  const int first_tile = tiles.next();
  stream(first_tile, 0);
  unsigned q[1][DK / 16][4];
  load_gathered<DK>(q[0], warp.first, shape.queries, shape.key_dim,
                    unit_rows<true>(shape, in.q, warp.head, shape.queries));
  GroupedTerms terms{{shape, warp.head, warp.first}, 0};
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
    const float sum = sum_of_quad(softmax.sum[0][half]);
    inverse[half] = 1 / sum;
    const int query = warp.first + this_lane().g + 8 * half;
    if (this_lane().t == 0 && query < shape.queries) {
      lse[shape.row(warp.head) + query] = softmax.shift[0][half] * kLn2 + logf(sum);
    }
  }
  store_gathered<DV>(softmax.acc[0], inverse, values + warp.index * 16 * kRowStride<DV>, warp.first,
                     shape.queries, shape.value_dim,
                     unit_rows<true>(shape, out, warp.head, shape.queries));
}

}  // namespace

bool grouped_tiles_forward(CudaQueue& queue, const GroupedAttentionForward& args) {
  const GroupedAttentionProblem& p = args.problem;
  const GroupedShape shape = grouped_shape<bfloat16>(p);
  const auto out = grouped_outputs<bfloat16>(p, args.out);
  if (!shape.aligned || !is_vectorizable(out, p.value_dim)) return false;
  return for_grouped_heads(p.key_dim, p.value_dim, [&](auto dk, auto dv) {
    constexpr int DK = dk, DV = dv;
    launch_for_units(queue, grouped_kernel_name("grouped_tiles_forward", p),
                     grouped_tiles_forward_kernel<DK, DV>, kTileThreads,
                     (kGroupedRing<DK> + kGroupedRing<DV>)*sizeof(bfloat16), shape, p, p.queries,
                     kTileRows, grouped_inputs<bfloat16>(p), out, static_cast<float*>(args.lse));
  });
}

}  // namespace dtn::attention
