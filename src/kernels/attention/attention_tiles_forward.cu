// Forward pass of attention by tiles: see attention_tiles.cuh and attention_softmax.cuh.
#include "kernels/attention/attention_softmax.cuh"
#include "kernels/attention/attention_tiles.cuh"

namespace dtn::attention {
namespace {

// Dropout of the weights of one step of the softmax.
template <bool kIsOn>
struct StepWeights {
  static constexpr bool kDrops = kIsOn;
  const WeightDropout<kIsOn>& dropout;
  int first_query, first_key;

  __device__ __forceinline__ unsigned draw(int r, int n) const {
    return dropout.of_queries(first_query + 16 * r, first_key + 16 * n);
  }
  __device__ __forceinline__ void apply(float (&p)[2][4], unsigned mask) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) p[i / 4][i % 4] *= dropout.of(mask, i / 4, i % 4 / 2, i % 2);
  }
};

template <int D, bool kDrops>
__global__ void __launch_bounds__(kTileThreads, 4)
    attention_tiles_forward_kernel(TileProblem problem, const bfloat16* qkv, Scale scale,
                                   WeightDropout<kDrops> dropout, bfloat16* out, float* lse) {
  DTN_SHARED(bfloat16, shared);  // [keys, values][kRingRows, kRowStride]
  const HeadShape& shape = problem.shape;
  const TileWarp warp(problem);
  dropout.begin(warp.head, shape);

  cuda::AsyncCopies copies;
  const auto stream = [&](int tile, int slot) {
    const bfloat16* keys = qkv + warp.head.qkv(shape) + shape.out_stride;
    stream_tile<D>(copies, shared, slot,
                   {keys, shape.qkv_stride, keys + shape.out_stride, shape.qkv_stride}, tile,
                   warp.count, shape);
    copies.commit();
  };
  KeyTiles tiles(problem, warp);
  const int first_tile = tiles.next();
  if (first_tile >= 0) stream(first_tile, 0);
  unsigned q[1][D / 16][4];
  load_own_rows<D, true>(q[0], qkv + warp.head.qkv(shape), shape.qkv_stride, warp.first,
                         warp.counted(problem));
#pragma unroll
  for (int i = 0; i < D / 4; ++i) q[0][i / 4][i % 4] ^= scale.sign;

  const RowBias<1, false> no_bias{{{}, warp.head}, {{}, 0, 0}, nullptr};
  OnlineSoftmax<D, 1, RowBias<1, false>> softmax;
  for_tiles(copies, first_tile, tiles, stream, [&](int tile, int slot) {
    if (warp.first >= warp.count) return;
    const int valid = warp.count - tile * kTileRows;
#pragma unroll 1
    for (int row = 0; row < kTileRows && row < valid; row += 32) {
      const bfloat16* k = shared + (slot * kTileRows + row) * kRowStride<D>;
      const StepWeights<kDrops> weights{dropout, warp.first, tile * kTileRows + row};
      softmax.template step<2>(q, k, k + kRingSize<D>, valid - row, scale.magnitude, no_bias, row,
                               weights);
    }
  });

  if (warp.first >= shape.tokens) return;
  if (const int zeros =
          problem.table.zero_keys(warp.head.head, warp.tile / problem.block_tiles, shape.tokens);
      zeros > 0) {
    softmax.take_zero_keys(zeros);
  }
  const Lane lane = this_lane();
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = sum_of_quad(softmax.sum[0][half]);
    const int row = warp.first + lane.g + 8 * half;
    const bool counts = row < warp.count;
    inverse[half] = counts ? 1 / sum : 0.0f;
    if (lane.t == 0 && row < shape.tokens) {
      lse[warp.head.row(shape) + row] = counts ? softmax.shift[0][half] * kLn2 + logf(sum) : 0.0f;
    }
  }
  store_own_rows<D, true>(softmax.acc[0], inverse, shared + warp.index * 16 * kRowStride<D>,
                          out + warp.head.out(shape), shape.out_stride, warp.first, shape);
}

}  // namespace

void tiles_forward(CudaQueue& queue, const AttentionForward& args, const BlockTable& table) {
  for_tile_heads(args.dropout, args.head_dim, [&](auto columns, auto dropout) {
    constexpr int D = columns;
    TileProblem problem = tile_problem(args, table);
    for_head_grids(problem.shape, args.batch, [&](dim3 blocks) {
      launch(queue,
             {"attention_tiles_forward", {args.batch, args.tokens, args.heads, args.head_dim}},
             attention_tiles_forward_kernel<D, decltype(dropout)::kDrops>,
             {blocks, kTileThreads, 2 * kRingSize<D> * sizeof(bfloat16)}, problem,
             static_cast<const bfloat16*>(args.qkv), Scale(args.scale), dropout,
             static_cast<bfloat16*>(args.out), static_cast<float*>(args.lse));
    });
  });
}

}  // namespace dtn::attention
