// Backward pass of attention inside groups on tensor cores, in three kernels that each compute the
// scores again. The first computes dq and the row statistics by rows of queries, the second dk and
// dv by rows of keys. The third computes the gradient of the bias by tiles of one head's scores;
// each tile loops over the units. All sums have a fixed order. See grouped_attention_tiles.cuh.
#include "kernels/attention/attention_tensor_backward.cuh"
#include "kernels/grouped_attention/grouped_attention_tiles.cuh"

namespace dtn::attention {
namespace {

// Computes ds of 16 queries and 16 keys from `key` on, from s and dp - delta; 0 for missing keys. A
// missing query has statistics of 0, and its results are not used.
__device__ __forceinline__ void differentiate(float (&ds)[1][2][4], float (&s)[1][2][4],
                                              const GroupedScores<false>& scores,
                                              const OwnStatistics<1>& of_query, int key) {
  scores.apply(s[0], key);
  for_scores(0,
             [&](ScoreIndex i) { i.of(ds) *= cuda::exp2_approximate(i.of(s) - of_query[i].lse); });
}

template <int DK, int DV>
__global__ void __launch_bounds__(kTileThreads, DK + DV > 96   ? 3
                                                : DK + DV > 48 ? 4
                                                               : 5)
    grouped_tiles_queries_kernel(GroupedShape shape, GroupedBackwardArrays<bfloat16> arrays) {
  DTN_SHARED(bfloat16, keys);
  bfloat16* values = keys + kGroupedRing<DK>;
  const GroupedWarp warp(shape);
  const BlockHead head = warp.head;

  cuda::AsyncCopies copies;
  const auto stream = [&](int tile, int slot) {
    stream_gathered<DK>(copies, keys, slot, tile, shape.keys, shape.key_dim,
                        unit_rows<true>(shape, arrays.in.k, head, shape.keys));
    stream_gathered<DV>(copies, values, slot, tile, shape.keys, shape.value_dim,
                        unit_rows<true>(shape, arrays.in.v, head, shape.keys));
    copies.commit();
  };
  RunOfTiles tiles{0, (shape.keys + kTileRows - 1) / kTileRows};
  const int first_tile = tiles.next();
  stream(first_tile, 0);
  unsigned q[1][DK / 16][4], dout[1][DV / 16][4], out[DV / 16][4];
  load_gathered<DK>(q[0], warp.first, shape.queries, shape.key_dim,
                    unit_rows<true>(shape, arrays.in.q, head, shape.queries));
  load_gathered<DV>(dout[0], warp.first, shape.queries, shape.value_dim,
                    unit_rows<true>(shape, arrays.dout, head, shape.queries));
  load_gathered<DV>(out, warp.first, shape.queries, shape.value_dim,
                    unit_rows<true>(shape, arrays.out, head, shape.queries));
  float delta[2];
  dot_own_rows<DV>(delta, dout[0], out);
  OwnStatistics<1> own;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = warp.first + this_lane().g + 8 * half;
    const std::int64_t row = shape.row(head) + query;
    const bool there = query < shape.queries;
    own.rows[0][half] = {there ? arrays.lse[row] * kLog2E : 0.0f, delta[half]};
    if (there && this_lane().t == 0) arrays.statistics[row] = own.rows[0][half];
  }
  const GroupedScores<false> terms(shape, head, warp.first);
  float dq[1][DK / 8][4] = {};
  for_tiles(copies, first_tile, tiles, stream, [&](int tile, int slot) {
    if (warp.first >= shape.queries) return;
#pragma unroll 1
    for (int row = 0; row < kTileRows && tile * kTileRows + row < shape.keys; row += 16) {
      const bfloat16* k = keys + (slot * kTileRows + row) * kRowStride<DK>;
      float s[1][2][4] = {}, dp[1][2][4];
      begin_at_minus_delta(dp, own);
      scores<DV, 1>(dp, dout, values + (slot * kTileRows + row) * kRowStride<DV>);
      scores<DK, 1>(s, q, k);
      differentiate(dp, s, terms, own, tile * kTileRows + row);
      unsigned ds[1][4];
      pack_operand(ds[0], dp[0]);
      accumulate<DK, 1>(dq, ds, k);
    }
  });
  if (warp.first >= shape.queries) return;
  const float factor[2] = {shape.scale, shape.scale};
  store_gathered<DK>(dq[0], factor, keys + warp.index * 16 * kRowStride<DK>, warp.first,
                     shape.queries, shape.key_dim,
                     unit_rows<true>(shape, arrays.dq, head, shape.queries));
}

template <int DK, int DV>
__global__ void __launch_bounds__(kTileThreads, DK + DV > 96 ? 2 : 3)
    grouped_tiles_keys_kernel(GroupedShape shape, GroupedBackwardArrays<bfloat16> arrays) {
  DTN_SHARED(bfloat16, queries);  // [kRingRows, DK + 8], douts [kRingRows, DV + 8], statistics
  bfloat16* douts = queries + kGroupedRing<DK>;
  auto* statistics = reinterpret_cast<RowStatistics*>(douts + kGroupedRing<DV>);
  const GroupedWarp warp(shape);
  const BlockHead head = warp.head;

  cuda::AsyncCopies copies;
  const auto stream = [&](int tile, int slot) {
    stream_gathered<DK>(copies, queries, slot, tile, shape.queries, shape.key_dim,
                        unit_rows<true>(shape, arrays.in.q, head, shape.queries));
    stream_gathered<DV>(copies, douts, slot, tile, shape.queries, shape.value_dim,
                        unit_rows<true>(shape, arrays.dout, head, shape.queries));
    stream_statistics(copies, statistics + slot * kTileRows, arrays.statistics + shape.row(head),
                      tile * kTileRows, shape.queries);
    copies.commit();
  };
  RunOfTiles tiles{0, (shape.queries + kTileRows - 1) / kTileRows};
  const int first_tile = tiles.next();
  stream(first_tile, 0);
  unsigned k[1][DK / 16][4], v[1][DV / 16][4];
  load_gathered<DK>(k[0], warp.first, shape.keys, shape.key_dim,
                    unit_rows<true>(shape, arrays.in.k, head, shape.keys));
  load_gathered<DV>(v[0], warp.first, shape.keys, shape.value_dim,
                    unit_rows<true>(shape, arrays.in.v, head, shape.keys));
  const GroupedScores<true> terms(shape, head, warp.first);
  float dk[1][DK / 8][4] = {}, dv[1][DV / 8][4] = {};
  for_tiles(copies, first_tile, tiles, stream, [&](int tile, int slot) {
    if (warp.first >= shape.keys) return;
    const int valid = shape.queries - tile * kTileRows;
#pragma unroll 1
    for (int row = 0; row < kTileRows && row < valid; row += 16) {
      const bfloat16* q = queries + (slot * kTileRows + row) * kRowStride<DK>;
      const bfloat16* dout = douts + (slot * kTileRows + row) * kRowStride<DV>;
      float p[1][2][4] = {}, ds[1][2][4];
      const OfStreamedRows<RowStatistics> of_query =
          load_streamed(statistics, slot * kTileRows + row, this_lane());
      begin_at_minus_delta(ds, of_query);
      scores<DK, 1>(p, k, q);
      scores<DV, 1>(ds, v, dout);
      terms.apply(p[0], tile * kTileRows + row);
      for_scores(0, [&](ScoreIndex i) {
        i.of(p) = cuda::exp2_approximate(i.of(p) - of_query[i].lse);
        i.of(ds) *= i.of(p);
      });
      for_missing_scores(0, valid - row, this_lane(),
                         [&](ScoreIndex i) { i.of(p) = i.of(ds) = 0; });
      unsigned rounded_p[1][4], rounded_ds[1][4];
      pack_operand(rounded_p[0], p[0]);
      pack_operand(rounded_ds[0], ds[0]);
      accumulate<DV, 1>(dv, rounded_p, dout);
      accumulate<DK, 1>(dk, rounded_ds, q);
    }
  });
  if (warp.first >= shape.keys) return;
  const float of_dk[2] = {shape.scale, shape.scale}, of_dv[2] = {1, 1};
  store_gathered<DK>(dk[0], of_dk, queries + warp.index * 16 * kRowStride<DK>, warp.first,
                     shape.keys, shape.key_dim,
                     unit_rows<true>(shape, arrays.dk, head, shape.keys));
  store_gathered<DV>(dv[0], of_dv, douts + warp.index * 16 * kRowStride<DV>, warp.first, shape.keys,
                     shape.value_dim, unit_rows<true>(shape, arrays.dv, head, shape.keys));
}

template <int DK, int DV>
__global__ void __launch_bounds__(kTileThreads, 2)
    grouped_tiles_bias_kernel(GroupedShape shape, GroupedBackwardArrays<bfloat16> arrays,
                              BiasTiles tiles) {
  DTN_SHARED(bfloat16, keys);
  bfloat16* values = keys + kGroupedRing<DK>;
  const BiasTile tile(tiles, shape);
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  const int first = tile.query_tile * kTileRows + 16 * warp;
  const Lane lane = this_lane();

  cuda::AsyncCopies copies;
  // Units stream like tiles: stream() loads the keys of one tile for a unit.
  const auto stream = [&](int unit, int slot) {
    stream_gathered<DK>(copies, keys, slot, tile.key_tile, shape.keys, shape.key_dim,
                        unit_rows<true>(shape, arrays.in.k, {unit, tile.head, 0}, shape.keys));
    stream_gathered<DV>(copies, values, slot, tile.key_tile, shape.keys, shape.value_dim,
                        unit_rows<true>(shape, arrays.in.v, {unit, tile.head, 0}, shape.keys));
    copies.commit();
  };
  RunOfTiles units{tile.first_unit(tiles), tile.end_unit(tiles)};
  const int first_unit = units.next();
  if (first_unit >= 0) stream(first_unit, 0);
  float sum[kTileRows / 16][2][4] = {};
  for_tiles(copies, first_unit, units, stream, [&](int unit, int slot) {
    if (first >= shape.queries) return;
    const BlockHead head{unit, tile.head, 0};
    unsigned q[1][DK / 16][4], dout[1][DV / 16][4];
    load_gathered<DK>(q[0], first, shape.queries, shape.key_dim,
                      unit_rows<true>(shape, arrays.in.q, head, shape.queries));
    load_gathered<DV>(dout[0], first, shape.queries, shape.value_dim,
                      unit_rows<true>(shape, arrays.dout, head, shape.queries));
    OwnStatistics<1> own;
    const RowStatistics* rows = arrays.statistics + shape.row(head);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first + lane.g + 8 * half;
      own.rows[0][half] = query < shape.queries ? rows[query] : RowStatistics{0, 0};
    }
    const GroupedScores<false> terms(shape, head, first);
#pragma unroll
    for (int n = 0; n < kTileRows / 16; ++n) {
      const int at = slot * kTileRows + 16 * n;
      float s[1][2][4] = {}, dp[1][2][4];
      begin_at_minus_delta(dp, own);
      scores<DV, 1>(dp, dout, values + at * kRowStride<DV>);
      scores<DK, 1>(s, q, keys + at * kRowStride<DK>);
      differentiate(dp, s, terms, own, tile.key_tile * kTileRows + 16 * n);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[n][i / 4][i % 4] += dp[0][i / 4][i % 4];
    }
  });

  float* to = tile.partial(tiles, shape);
#pragma unroll
  for (int n = 0; n < kTileRows / 16; ++n) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int query = first + lane.g + 8 * (i / 2 % 2);
      const int key = tile.key_tile * kTileRows + 16 * n + 8 * (i / 4) + 2 * lane.t + i % 2;
      if (query >= shape.queries || key >= shape.keys) continue;
      to[static_cast<std::int64_t>(query) * shape.keys + key] = sum[n][i / 4][i % 4];
    }
  }
}

}  // namespace

bool grouped_tiles_backward(CudaQueue& queue, const GroupedAttentionBackward& args,
                            RowStatistics* statistics) {
  const GroupedAttentionProblem& p = args.problem;
  const GroupedShape shape = grouped_shape<bfloat16>(p);
  const auto arrays = grouped_backward_arrays<bfloat16>(args, statistics);
  if (!shape.aligned || !is_vectorizable(arrays.out, p.value_dim) ||
      !is_vectorizable(arrays.dout, p.value_dim) || !is_vectorizable(arrays.dq, p.key_dim) ||
      !is_vectorizable(arrays.dk, p.key_dim) || !is_vectorizable(arrays.dv, p.value_dim)) {
    return false;
  }
  return for_grouped_heads(p.key_dim, p.value_dim, [&](auto dk, auto dv) {
    constexpr int DK = dk, DV = dv;
    constexpr std::size_t kRings = (kGroupedRing<DK> + kGroupedRing<DV>)*sizeof(bfloat16);
    const auto start = [&](const char* name, auto kernel, std::int64_t rows, std::size_t bytes) {
      launch_for_units(queue, grouped_kernel_name(name, p), kernel, kTileThreads, bytes, shape, p,
                       rows, kTileRows, arrays);
    };
    start("grouped_tiles_queries", grouped_tiles_queries_kernel<DK, DV>, p.queries, kRings);
    start("grouped_tiles_keys", grouped_tiles_keys_kernel<DK, DV>, p.keys,
          kRings + kRingRows * sizeof(RowStatistics));
    sum_bias_tiles(queue, args, kTileRows, kTileRows, "grouped_tiles_bias",
                   grouped_tiles_bias_kernel<DK, DV>, {{}, kTileThreads, kRings}, shape, arrays);
  });
}

}  // namespace dtn::attention
