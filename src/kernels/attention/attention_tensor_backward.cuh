// Shared parts of the two kernels of the backward pass on tensor cores. Both hold the scores of a
// warp's own rows with 16 streamed rows, and compute p and ds from them. The own rows are queries
// in one kernel and keys in the other. So the values of queries and keys are looked up by the index
// of the score, and the formulas are written once.
#pragma once

#include "kernels/attention/attention_tensor.cuh"

namespace dtn::attention {

struct BackwardArrays {
  const bfloat16 *qkv, *out, *dout;
  const float* lse;
  bfloat16* dqkv;
  RowStatistics* statistics;  // [B, H, T]
  float scale, score_scale;   // score_scale = scale log2(e)
};
inline BackwardArrays backward_arrays(const AttentionBackward& args, RowStatistics* statistics) {
  return {.qkv = static_cast<const bfloat16*>(args.qkv),
          .out = static_cast<const bfloat16*>(args.out),
          .dout = static_cast<const bfloat16*>(args.dout),
          .lse = static_cast<const float*>(args.lse),
          .dqkv = static_cast<bfloat16*>(args.dqkv),
          .statistics = statistics,
          .scale = static_cast<float>(args.scale),
          .score_scale = static_cast<float>(args.scale) * kLog2E};
}

// A warp's index in the block, and the first of the rows that it owns.
struct Warp {
  int index, first;
};
template <class K>
__device__ __forceinline__ Warp this_warp(BlockHead head) {
  int index = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  int warps = static_cast<int>(blockDim.x) / cuda::kWarpSize;
  return {index, (head.block * warps + index) * K::kRowsPerWarp};
}

// A score that a lane holds: row g + 8 half of tile r with streamed row 8 j + 2 t + side.
struct ScoreIndex {
  int r, j, half, side;

  template <class Scores>
  __device__ __forceinline__ auto& of(Scores& scores) const {
    return scores[r][j][2 * half + side];
  }
};

// Calls f(ScoreIndex) for each score of tile r that the lane holds.
template <class F>
__device__ __forceinline__ void for_scores(int r, F&& f) {
#pragma unroll
  for (int i = 0; i < 8; ++i) f(ScoreIndex{r, i / 4, i / 2 % 2, i % 2});
}

// Calls f for the scores with missing streamed rows; only the first `left` of the 16 rows exist.
// These scores have no gradient, whatever p is.
template <class F>
__device__ __forceinline__ void for_missing_scores(int r, int left, Lane lane, F&& f) {
  if (left >= 16) return;
  for_scores(r, [&](ScoreIndex i) {
    if (8 * i.j + 2 * lane.t + i.side >= left) f(i);
  });
}

// Row sums of a b, for rows g and g + 8.
template <int D>
__device__ __forceinline__ void dot_own_rows(float (&sum)[2], const unsigned (&a)[D / 16][4],
                                             const unsigned (&b)[D / 16][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float v = 0;
#pragma unroll
    for (int k = 0; k < D / 8; ++k) {
      unsigned x = a[k / 2][half + k % 2 * 2], y = b[k / 2][half + k % 2 * 2];
      v = fmaf(cuda::low_bfloat16(x), cuda::low_bfloat16(y), v);
      v = fmaf(cuda::high_bfloat16(x), cuda::high_bfloat16(y), v);
    }
    sum[half] = sum_of_quad(v);
  }
}

// The statistics (log2(e) lse, delta) and the positions of the rows that a warp owns.
template <int R>
struct OwnStatistics {
  RowStatistics rows[R][2];
  __device__ __forceinline__ const RowStatistics& operator[](ScoreIndex i) const {
    return rows[i.r][i.half];
  }
};
template <bool kBiased, int R>
struct OwnPlaces : Places<kBiased, 2 * R> {
  __device__ __forceinline__ OwnPlaces(const GridBias<kBiased>& grid, int first, Lane lane)
      : Places<kBiased, 2 * R>(grid, first + lane.g, 8) {}
  __device__ __forceinline__ const Place& operator[](ScoreIndex i) const {
    return this->at[2 * i.r + i.half];
  }
};

// The statistics, or the positions, of 16 streamed rows: two float32 per row.
template <class V>
struct OfStreamedRows {
  float4 two[2];  // rows 8 j + 2 t and 8 j + 2 t + 1

  __device__ __forceinline__ V operator[](ScoreIndex i) const {
    const float4& v = two[i.j];
    return {i.side ? v.z : v.x, i.side ? v.w : v.y};
  }
};
template <class V>
__device__ __forceinline__ OfStreamedRows<V> load_streamed(const V* ring, int row, Lane lane) {
  static_assert(sizeof(V) == 2 * sizeof(float));
  const V* from = ring + row % kRingRows + 2 * lane.t;
  OfStreamedRows<V> of;
#pragma unroll
  for (int j = 0; j < 2; ++j) of.two[j] = *reinterpret_cast<const float4*>(from + 8 * j);
  return of;
}

// Starts to copy the statistics of kTileRows query rows, of which only those below `count` exist.
// The whole block takes part.
__device__ __forceinline__ void stream_statistics(cuda::AsyncCopies& copies, RowStatistics* to,
                                                  const RowStatistics* from, int first, int count) {
  for (int i = recomputed_thread(); i < kTileRows; i += static_cast<int>(blockDim.x)) {
    const bool inside = first + i < count;
    copies.copy<8>(to + i, from + (inside ? first + i : 0), inside);
  }
}

// The sums dp - delta start at -delta, which saves a subtraction and a register per score.
template <int R, class Statistics>
__device__ __forceinline__ void begin_at_minus_delta(float (&dp)[R][2][4],
                                                     const Statistics& of_query) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    for_scores(r, [&](ScoreIndex i) { i.of(dp) = -of_query[i].delta; });
  }
}

// The query rows of a warp, and their statistics, which are also stored for the kernel of dk and
// dv. Only the rows of `counted` exist.
template <int D, int R, bool kAligned, bool kBiased>
struct OwnQueries {
  unsigned q[R][D / 16][4], dout[R][D / 16][4];
  OwnStatistics<R> statistics;

  __device__ __forceinline__ OwnQueries(const HeadShape& shape, const HeadShape& counted,
                                        const BackwardArrays& arrays, BlockHead head, int first) {
    const Lane lane = this_lane();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      int row = first + 16 * r;
      unsigned out[D / 16][4];
      load_own_rows<D, kAligned>(dout[r], arrays.dout + head.out(shape), shape.out_stride, row,
                                 counted);
      load_own_rows<D, kAligned>(out, arrays.out + head.out(shape), shape.out_stride, row, counted);
      load_own_rows<D, kAligned>(q[r], arrays.qkv + head.qkv(shape), shape.qkv_stride, row,
                                 counted);
      float delta[2];
      dot_own_rows<D>(delta, dout[r], out);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int at = row + lane.g + 8 * half;
        bool inside = at < counted.tokens;
        float lse = inside ? arrays.lse[head.row(shape) + at] * kLog2E : kNoRow<kBiased>;
        statistics.rows[r][half] = {lse, delta[half]};
        if (inside && lane.t == 0) {
          arrays.statistics[head.row(shape) + at] = {lse, delta[half]};
        }
      }
    }
  }
};

// The key and value rows of a warp.
template <int D, int R, bool kAligned>
struct OwnKeys {
  unsigned k[R][D / 16][4], v[R][D / 16][4];

  __device__ __forceinline__ OwnKeys(const HeadShape& shape, const HeadShape& counted,
                                     const BackwardArrays& arrays, BlockHead head, int first) {
    const bfloat16* keys = arrays.qkv + head.qkv(shape) + shape.out_stride;
    const bfloat16* values = keys + shape.out_stride;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      load_own_rows<D, kAligned>(k[r], keys, shape.qkv_stride, first + 16 * r, counted);
      load_own_rows<D, kAligned>(v[r], values, shape.qkv_stride, first + 16 * r, counted);
    }
  }
};

// p = 2^(score_scale s + bias - lse).
template <bool kBiased>
struct Probability {
  float score_scale;
  HeadBias<kBiased> bias;

  template <class Queries, class Keys>
  __device__ __forceinline__ float operator()(float s, float lse,
                                              [[maybe_unused]] const Queries& queries,
                                              [[maybe_unused]] const Keys& keys,
                                              [[maybe_unused]] ScoreIndex i) const {
    float shift = -lse;
    if constexpr (kBiased) shift += bias(queries[i], keys[i]);
    return cuda::exp2_approximate(fmaf(s, score_scale, shift));
  }
};

// The scores of a warp of the first kernel. Computes ds and sums the gradient of the bias.
template <int R, bool kBiased>
struct QueryScores {
  Lane lane;
  Probability<kBiased> probability;
  OwnPlaces<kBiased, R> queries;
  BiasGradient<kBiased> dbias;

  // Computes ds, rounded, from s and dp - delta with 16 keys, of which the first `left` exist.
  __device__ __forceinline__ void differentiate(unsigned (&ds)[R][4], const float (&s)[R][2][4],
                                                float (&dp)[R][2][4],
                                                const OwnStatistics<R>& of_query,
                                                const OfStreamedRows<Place>& keys, int left) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      for_scores(r, [&](ScoreIndex i) {
        i.of(dp) *= probability(i.of(s), of_query[i].lse, queries, keys, i);
      });
      for_missing_scores(r, left, lane, [&](ScoreIndex i) { i.of(dp) = 0; });
      if constexpr (kBiased) {
        for_scores(r, [&](ScoreIndex i) { dbias.take(i.of(dp), queries[i], keys[i]); });
      }
      pack_operand(ds[r], dp[r]);
    }
  }
};

// The scores of a warp of the second kernel. Computes p and ds.
template <int R, bool kBiased>
struct KeyScores {
  Lane lane;
  Probability<kBiased> probability;
  OwnPlaces<kBiased, R> keys;

  // Turns the scores with 16 queries into probabilities.
  __device__ __forceinline__ void to_probabilities(float (&s)[R][2][4],
                                                   const OfStreamedRows<RowStatistics>& of_query,
                                                   const OfStreamedRows<Place>& queries) const {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      for_scores(r, [&](ScoreIndex i) {
        i.of(s) = probability(i.of(s), of_query[i].lse, queries, keys, i);
      });
    }
  }

  // Computes p and ds, rounded, from p and dp - delta with 16 queries, of which the first `left`
  // exist.
  __device__ __forceinline__ void differentiate(unsigned (&rounded_p)[R][4], unsigned (&ds)[R][4],
                                                float (&p)[R][2][4], float (&dp)[R][2][4],
                                                int left) const {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      for_scores(r, [&](ScoreIndex i) { i.of(dp) *= i.of(p); });
      for_missing_scores(r, left, lane, [&](ScoreIndex i) { i.of(p) = i.of(dp) = 0; });
      pack_operand(rounded_p[r], p[r]);
      pack_operand(ds[r], dp[r]);
    }
  }
};

// Writes all rows of a warp, times `factor`, through `shared`, which has room for 16 rows.
template <int D, int R, bool kAligned>
__device__ __forceinline__ void store_own_tiles(const float (&acc)[R][D / 8][4], float factor,
                                                bfloat16* shared, bfloat16* to, std::int64_t stride,
                                                int first, const HeadShape& shape) {
  const float factors[2] = {factor, factor};
#pragma unroll
  for (int r = 0; r < R; ++r) {
    store_own_rows<D, kAligned>(acc[r], factors, shared, to, stride, first + 16 * r, shape);
  }
}

}  // namespace dtn::attention
