// Backward pass of attention by tiles, in two kernels as in attention_tensor_backward.cu; see
// attention_tiles.cuh. With m the dropout factor of a weight:
//    dv = (p m)^T dout    ds = p (dp m - delta)    dp = dout v^T    delta = rowsum(dout out)
#include "kernels/attention/attention_tensor_backward.cuh"
#include "kernels/attention/attention_tiles.cuh"

namespace dtn::attention {
namespace {

// Starts dp at -delta. With dropout dp starts at 0, because m multiplies dp but not delta.
template <bool kDrops, class Statistics>
__device__ __forceinline__ void begin(float (&dp)[1][2][4], const Statistics& of_query) {
  if constexpr (kDrops) {
    for_scores(0, [&](ScoreIndex i) { i.of(dp) = 0; });
  } else {
    begin_at_minus_delta(dp, of_query);
  }
}

// Returns dp m - delta. `dp` is the product added to the start value of begin().
template <bool kDrops>
__device__ __forceinline__ float less_delta(float dp, const WeightDropout<kDrops>& dropout,
                                            unsigned mask, float delta, ScoreIndex i) {
  if constexpr (kDrops) return fmaf(dp, dropout.of(mask, i.j, i.half, i.side), -delta);
  return dp;
}

template <int D, bool kDrops>
__global__ void __launch_bounds__(kTileThreads, kDrops ? 3 : 4)
    attention_tiles_queries_kernel(TileProblem problem, BackwardArrays arrays,
                                   WeightDropout<kDrops> dropout) {
  DTN_SHARED(bfloat16, shared);  // [keys, values][kRingRows, kRowStride]
  const HeadShape& shape = problem.shape;
  const TileWarp warp(problem);
  const Lane lane = this_lane();
  dropout.begin(warp.head, shape);

  cuda::AsyncCopies copies;
  const auto stream = [&](int tile, int slot) {
    const bfloat16* keys = arrays.qkv + warp.head.qkv(shape) + shape.out_stride;
    stream_tile<D>(copies, shared, slot,
                   {keys, shape.qkv_stride, keys + shape.out_stride, shape.qkv_stride}, tile,
                   warp.count, shape);
    copies.commit();
  };
  KeyTiles tiles(problem, warp);
  const int first_tile = tiles.next();
  if (first_tile >= 0) stream(first_tile, 0);
  const OwnQueries<D, 1, true, false> own(shape, warp.counted(problem), arrays, warp.head,
                                          warp.first);
  float dq[1][D / 8][4] = {};
  for_tiles(copies, first_tile, tiles, stream, [&](int tile, int slot) {
    if (warp.first >= warp.count) return;
    const int valid = warp.count - tile * kTileRows;
#pragma unroll 1
    for (int row = 0; row < kTileRows && row < valid; row += 16) {
      const bfloat16* k = shared + (slot * kTileRows + row) * kRowStride<D>;
      float s[1][2][4] = {}, dp[1][2][4];
      begin<kDrops>(dp, own.statistics);
      scores<D, 1>(dp, own.dout, k + kRingSize<D>);
      scores<D, 1>(s, own.q, k);
      const unsigned mask = dropout.of_queries(warp.first, tile * kTileRows + row);
      for_scores(0, [&](ScoreIndex i) {
        const RowStatistics& of_query = own.statistics[i];
        const float p = cuda::exp2_approximate(fmaf(i.of(s), arrays.score_scale, -of_query.lse));
        i.of(dp) = p * less_delta(i.of(dp), dropout, mask, of_query.delta, i);
      });
      for_missing_scores(0, valid - row, lane, [&](ScoreIndex i) { i.of(dp) = 0; });
      unsigned ds[1][4];
      pack_operand(ds[0], dp[0]);
      accumulate<D, 1>(dq, ds, k);
    }
  });

  if (warp.first >= shape.tokens) return;
  store_own_tiles<D, 1, true>(dq, arrays.scale, shared + warp.index * 16 * kRowStride<D>,
                              arrays.dqkv + warp.head.qkv(shape), shape.qkv_stride, warp.first,
                              shape);
}

template <int D>
constexpr std::size_t kKeysSharedBytes =
    2 * kRingSize<D> * sizeof(bfloat16) + kRingRows * sizeof(RowStatistics);

template <int D, bool kDrops>
__global__ void __launch_bounds__(kTileThreads, 3)
    attention_tiles_keys_kernel(TileProblem problem, BackwardArrays arrays,
                                WeightDropout<kDrops> dropout) {
  // [queries, douts][kRingRows, kRowStride], statistics, one byte per block of tokens
  DTN_SHARED(bfloat16, shared);
  auto* statistics = reinterpret_cast<RowStatistics*>(shared + 2 * kRingSize<D>);
  const HeadShape& shape = problem.shape;
  const TileWarp warp(problem);
  const Lane lane = this_lane();
  dropout.begin(warp.head, shape);

  cuda::AsyncCopies copies;
  const auto stream = [&](int tile, int slot) {
    stream_tile<D>(copies, shared, slot,
                   {arrays.qkv + warp.head.qkv(shape), shape.qkv_stride,
                    arrays.dout + warp.head.out(shape), shape.out_stride},
                   tile, warp.count, shape);
    stream_statistics(copies, statistics + slot * kTileRows,
                      arrays.statistics + warp.head.row(shape), tile * kTileRows, warp.count);
    copies.commit();
  };
  QueryTiles tiles(problem, warp, reinterpret_cast<unsigned char*>(statistics + kRingRows));
  __syncthreads();
  const int first_tile = tiles.next();
  if (first_tile >= 0) stream(first_tile, 0);
  const OwnKeys<D, 1, true> own(shape, warp.counted(problem), arrays, warp.head, warp.first);
  const int own_left = warp.count - warp.first;  // valid rows of the warp
  float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};
  for_tiles(copies, first_tile, tiles, stream, [&](int tile, int slot) {
    if (own_left <= 0) return;
    const int valid = warp.count - tile * kTileRows;
#pragma unroll 1
    for (int row = 0; row < kTileRows && row < valid; row += 16) {
      const bfloat16* q = shared + (slot * kTileRows + row) * kRowStride<D>;
      const bfloat16* dout = q + kRingSize<D>;
      float p[1][2][4] = {}, ds[1][2][4];
      const OfStreamedRows<RowStatistics> of_query =
          load_streamed(statistics, slot * kTileRows + row, lane);
      begin<kDrops>(ds, of_query);
      scores<D, 1>(p, own.k, q);
      scores<D, 1>(ds, own.v, dout);
      const unsigned mask = dropout.of_keys(warp.first, tile * kTileRows + row);
      for_scores(0, [&](ScoreIndex i) {
        const RowStatistics query = of_query[i];
        float weight = cuda::exp2_approximate(fmaf(i.of(p), arrays.score_scale, -query.lse));
        // A missing key has scores of 0, which may be far above the other scores of a row.
        if (lane.g + 8 * i.half >= own_left) weight = 0;
        i.of(ds) = weight * less_delta(i.of(ds), dropout, mask, query.delta, i);
        if constexpr (kDrops) weight *= dropout.of(mask, i.j, i.half, i.side);
        i.of(p) = weight;
      });
      for_missing_scores(0, valid - row, lane, [&](ScoreIndex i) { i.of(p) = i.of(ds) = 0; });
      unsigned rounded_p[1][4], rounded_ds[1][4];
      pack_operand(rounded_p[0], p[0]);
      pack_operand(rounded_ds[0], ds[0]);
      accumulate<D, 1>(dv, rounded_p, dout);
      accumulate<D, 1>(dk, rounded_ds, q);
    }
  });

  if (warp.first >= shape.tokens) return;
  bfloat16* staging = shared + warp.index * 16 * kRowStride<D>;
  bfloat16* to = arrays.dqkv + warp.head.qkv(shape) + shape.out_stride;
  store_own_tiles<D, 1, true>(dk, arrays.scale, staging, to, shape.qkv_stride, warp.first, shape);
  store_own_tiles<D, 1, true>(dv, 1, staging, to + shape.out_stride, shape.qkv_stride, warp.first,
                              shape);
}

}  // namespace

void tiles_backward(CudaQueue& queue, const AttentionBackward& args, const BlockTable& table,
                    RowStatistics* statistics) {
  const BackwardArrays arrays = backward_arrays(args, statistics);
  for_tile_heads(args.dropout, args.head_dim, [&](auto columns, auto dropout) {
    constexpr int D = columns;
    constexpr bool kDrops = decltype(dropout)::kDrops;
    TileProblem problem = tile_problem(args, table);
    const auto start = [&](const char* name, auto kernel, std::size_t shared_bytes) {
      for_head_grids(problem.shape, args.batch, [&](dim3 blocks) {
        launch(queue, {name, {args.batch, args.tokens, args.heads, args.head_dim}}, kernel,
               {blocks, kTileThreads, shared_bytes}, problem, arrays, dropout);
      });
    };
    start("attention_tiles_queries", attention_tiles_queries_kernel<D, kDrops>,
          2 * kRingSize<D> * sizeof(bfloat16));
    start("attention_tiles_keys", attention_tiles_keys_kernel<D, kDrops>,
          kKeysSharedBytes<D> + static_cast<std::size_t>(problem.table.blocks + 15) / 16 * 16);
  });
}

}  // namespace dtn::attention
