// Backward pass on tensor cores, in two kernels. Both recompute the probabilities from the scores
// and lse.
//    dq:         a warp owns query rows (q, dout); keys and values stream by. This kernel also
//                computes the row statistics, log2(e) lse and delta, for the second kernel.
//    dk and dv:  a warp owns keys (k, v); queries and douts stream by, with their statistics. The
//                scores are transposed, [keys, queries], so that p and ds are left operands.
#include "kernels/attention/attention_tensor_backward.cuh"

namespace dtn::attention {
namespace {

// The bias needs registers too.
template <bool kBiased>
constexpr Residency queries_residency(int dim) {
  if (dim <= (kBiased ? 16 : 48)) return {2, 4, 3};
  if (dim <= 64) return {1, kBiased ? 6 : 7, 2};
  return {1, 4, dim <= 80 ? 3 : 2};
}
template <int D, bool kBiased>
struct BackwardQueries : Resident<queries_residency<kBiased>(D)> {
  static constexpr std::size_t kSharedBytes =
      2 * kRingSize<D> * sizeof(bfloat16) + kPlaceBytes<kBiased>;
};

template <bool kBiased>
constexpr Residency keys_residency(int dim) {
  if (dim <= (kBiased ? 16 : 32)) return {2, 4, 3};
  if (dim <= (kBiased ? 32 : 48)) return {1, 7, 2};
  return {1, dim <= 64 ? 6 : 4, 2};
}
template <int D, bool kBiased>
struct BackwardKeys : Resident<keys_residency<kBiased>(D)> {
  static constexpr std::size_t kSharedBytes = 2 * kRingSize<D> * sizeof(bfloat16) +
                                              kRingRows * sizeof(RowStatistics) +
                                              kPlaceBytes<kBiased>;
};

template <int D, bool kAligned, bool kBiased>
__global__ void __launch_bounds__(BackwardQueries<D, kBiased>::kMaxThreads,
                                  BackwardQueries<D, kBiased>::blocks_per_sm(kAligned))
    attention_backward_queries_kernel(HeadShape shape, BackwardArrays arrays,
                                      GridBias<kBiased> grid) {
  constexpr int R = BackwardQueries<D, kBiased>::kTiles;
  DTN_SHARED(bfloat16, shared);  // [keys, values][kRingRows, kRowStride], places
  [[maybe_unused]] auto* places = reinterpret_cast<Place*>(shared + 2 * kRingSize<D>);
  BlockHead head = block_head(shape);
  Warp warp = this_warp<BackwardQueries<D, kBiased>>(head);
  Lane lane = this_lane();

  cuda::AsyncCopies copies;
  auto stream = [&](int row) {
    const bfloat16* keys =
        arrays.qkv + block_head(shape).recomputed().qkv(shape) + shape.out_stride;
    stream_rows<D, kAligned>(copies, shared,
                             {keys, shape.qkv_stride, keys + shape.out_stride, shape.qkv_stride},
                             row, shape);
    copies.commit();
    stream_places(places, grid, row);
  };
  stream(0);
  OwnQueries<D, R, kAligned, kBiased> own(shape, shape, arrays, head, warp.first);
  QueryScores<R, kBiased> of_warp{
      lane, {arrays.score_scale, {grid, head, kLog2E}}, {grid, warp.first, lane}, {}};
  float dq[R][D / 8][4] = {};
#pragma unroll 1
  for (int row = 0; row < shape.tokens; row += 16) {
    if (row % kTileRows == 0) {
      copies.wait<0>();
      __syncthreads();
      if (row + kTileRows < shape.tokens) stream(row + kTileRows);
    }
    if (warp.first >= shape.tokens) continue;
    const bfloat16* k = at_row<D>(shared, row);
    const bfloat16* v = k + kRingSize<D>;
    float s[R][2][4] = {}, dp[R][2][4];
    begin_at_minus_delta(dp, own.statistics);
    scores<D, R>(dp, own.dout, v);
    scores<D, R>(s, own.q, k);
    [[maybe_unused]] OfStreamedRows<Place> keys;
    if constexpr (kBiased) keys = load_streamed(places, row, lane);
    unsigned ds[R][4];
    of_warp.differentiate(ds, s, dp, own.statistics, keys, shape.tokens - row);
    accumulate<D, R>(dq, ds, k);
  }
  __syncthreads();

  head = block_head(shape).recomputed();
  of_warp.dbias.store(grid, shape, head);
  if (warp.first >= shape.tokens) return;
  store_own_tiles<D, R, kAligned>(dq, arrays.scale, shared + warp.index * 16 * kRowStride<D>,
                                  arrays.dqkv + head.qkv(shape), shape.qkv_stride, warp.first,
                                  shape);
}

template <int D, bool kAligned, bool kBiased>
__global__ void __launch_bounds__(BackwardKeys<D, kBiased>::kMaxThreads,
                                  BackwardKeys<D, kBiased>::blocks_per_sm(kAligned))
    attention_backward_keys_kernel(HeadShape shape, BackwardArrays arrays, GridBias<kBiased> grid) {
  constexpr int R = BackwardKeys<D, kBiased>::kTiles;
  DTN_SHARED(bfloat16, shared);  // [queries, douts][kRingRows, kRowStride], statistics, places
  auto* statistics = reinterpret_cast<RowStatistics*>(shared + 2 * kRingSize<D>);
  [[maybe_unused]] auto* places = reinterpret_cast<Place*>(statistics + kRingRows);
  BlockHead head = block_head(shape);
  Warp warp = this_warp<BackwardKeys<D, kBiased>>(head);
  Lane lane = this_lane();

  cuda::AsyncCopies copies;
  auto stream = [&](int row) {
    const BlockHead here = block_head(shape);
    stream_rows<D, kAligned>(copies, shared,
                             {arrays.qkv + here.qkv(shape), shape.qkv_stride,
                              arrays.dout + here.out(shape), shape.out_stride},
                             row, shape);
    stream_statistics(copies, statistics + row % kRingRows, arrays.statistics + here.row(shape),
                      row, shape.tokens);
    copies.commit();
    stream_places(places, grid, row);
  };
  stream(0);
  OwnKeys<D, R, kAligned> own(shape, shape, arrays, head, warp.first);
  KeyScores<R, kBiased> of_warp{
      lane, {arrays.score_scale, {grid, head, kLog2E}}, {grid, warp.first, lane}};
  float dk[R][D / 8][4] = {}, dv[R][D / 8][4] = {};
#pragma unroll 1
  for (int row = 0; row < shape.tokens; row += 16) {
    if (row % kTileRows == 0) {
      copies.wait<0>();
      __syncthreads();
      if (row + kTileRows < shape.tokens) stream(row + kTileRows);
    }
    if (warp.first >= shape.tokens) continue;
    const bfloat16* q = at_row<D>(shared, row);
    const bfloat16* dout = q + kRingSize<D>;
    float p[R][2][4] = {}, dp[R][2][4];
    scores<D, R>(p, own.k, q);
    OfStreamedRows<RowStatistics> of_query = load_streamed(statistics, row, lane);
    [[maybe_unused]] OfStreamedRows<Place> queries;
    if constexpr (kBiased) queries = load_streamed(places, row, lane);
    of_warp.to_probabilities(p, of_query, queries);
    begin_at_minus_delta(dp, of_query);
    scores<D, R>(dp, own.v, dout);
    unsigned rounded_p[R][4], ds[R][4];
    of_warp.differentiate(rounded_p, ds, p, dp, shape.tokens - row);
    accumulate<D, R>(dv, rounded_p, dout);
    accumulate<D, R>(dk, ds, q);
  }
  __syncthreads();

  if (warp.first >= shape.tokens) return;
  bfloat16* staging = shared + warp.index * 16 * kRowStride<D>;
  bfloat16* to = arrays.dqkv + block_head(shape).recomputed().qkv(shape) + shape.out_stride;
  store_own_tiles<D, R, kAligned>(dk, arrays.scale, staging, to, shape.qkv_stride, warp.first,
                                  shape);
  store_own_tiles<D, R, kAligned>(dv, 1, staging, to + shape.out_stride, shape.qkv_stride,
                                  warp.first, shape);
}

}  // namespace

void tensor_backward(CudaQueue& queue, const AttentionBackward& args, RowStatistics* statistics) {
  const BackwardArrays arrays = backward_arrays(args, statistics);
  HeadShape shape = head_shape(args);
  const bool is_aligned = args.head_dim % 8 == 0 && starts_aligned(args.qkv) &&
                          starts_aligned(args.out) && starts_aligned(args.dout) &&
                          starts_aligned(args.dqkv);
  for_head_rows(args.head_dim, is_aligned, [&](auto padded, auto aligned) {
    constexpr int D = padded;
    for_bias(args, [&](auto bias) {
      constexpr bool kBiased = decltype(bias)::kBiased;
      auto start = [&](const char* name, auto kernel, auto tuning, Division rows,
                       const GridBias<kBiased>& grid) {
        shape.blocks = rows.blocks;
        for_head_grids(shape, args.batch, [&](dim3 blocks) {
          launch(queue, {name, {args.batch, args.tokens, args.heads, args.head_dim}}, kernel,
                 {blocks, static_cast<unsigned>(rows.warps * cuda::kWarpSize),
                  decltype(tuning)::kSharedBytes},
                 shape, arrays, grid);
        });
      };
      auto divide = [&](auto tuning) {
        using K = decltype(tuning);
        return divide_rows(args.tokens, K::kRowsPerWarp, K::kMaxWarps);
      };
      BackwardQueries<D, kBiased> queries;
      BackwardKeys<D, kBiased> keys;
      Division rows = divide(queries);
      with_bias_gradient(queue, args, bias, rows.blocks * rows.warps, [&](const auto& grid) {
        start("attention_backward_queries", attention_backward_queries_kernel<D, aligned, kBiased>,
              queries, rows, grid);
      });
      start("attention_backward_keys", attention_backward_keys_kernel<D, aligned, kBiased>, keys,
            divide(keys), bias);
    });
  });
}

}  // namespace dtn::attention
