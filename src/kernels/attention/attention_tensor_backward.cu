// Backward pass on tensor cores, two kernels. The probabilities are recomputed from the scores and
// lse in both.
//   dq:        a warp owns query rows (q, dout), keys and values stream by. It also makes the row
//              statistics, log2(e) lse and delta, for the second kernel.
//   dk and dv: a warp owns keys (k, v), queries and douts stream by, with their statistics. The
//              scores are held transposed, [keys, queries], so that p and ds are left operands.
// The sums dp - delta begin at -delta, which saves a subtraction per score and its register.
#include "kernels/attention/attention_tensor.cuh"

namespace dtn::attention {
namespace {

// A bias takes registers, too.
template <bool kBiased>
constexpr Residency queries_residency(int dim) {
  if (dim <= (kBiased ? 32 : 48)) return {2, 4, 3};
  if (dim <= 64) return {1, 7, 2};
  return {1, 4, dim <= 96 ? 3 : 2};
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

struct BackwardArrays {
  const bfloat16 *qkv, *out, *dout;
  const float* lse;
  bfloat16* dqkv;
  RowStatistics* statistics;  // [B, H, T]
  float scale, score_scale;   // the latter times log2(e)
};

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
    v += __shfl_xor_sync(cuda::kWholeWarp, v, 1);
    sum[half] = v + __shfl_xor_sync(cuda::kWholeWarp, v, 2);
  }
}

template <int D, bool kBiased>
__global__ void __launch_bounds__(BackwardQueries<D, kBiased>::kMaxThreads,
                                  BackwardQueries<D, kBiased>::kBlocksPerSm)
    attention_backward_queries_kernel(HeadShape shape, BackwardArrays arrays,
                                      GridBias<kBiased> grid) {
  using K = BackwardQueries<D, kBiased>;
  constexpr int R = K::kTiles;
  DTN_SHARED(bfloat16, shared);  // [keys, values][kRingRows, kRowStride], places
  [[maybe_unused]] auto* places = reinterpret_cast<Place*>(shared + 2 * kRingSize<D>);
  BlockHead head = block_head(shape);
  int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  int warps = static_cast<int>(blockDim.x) / cuda::kWarpSize;
  int first = (head.block * warps + warp) * K::kRowsPerWarp;
  Lane lane = this_lane();

  cuda::AsyncCopies copies;
  auto stream = [&](int row) {
    const bfloat16* keys = arrays.qkv + head.recomputed().qkv(shape) + shape.out_stride;
    const bfloat16* values = keys + shape.out_stride;
    stream_rows<D>(copies, shared, keys, shape.qkv_stride, row, shape);
    stream_rows<D>(copies, shared + kRingSize<D>, values, shape.qkv_stride, row, shape);
    copies.commit();
    stream_places(places, grid, row);
  };
  stream(0);
  unsigned q[R][D / 16][4], dout[R][D / 16][4];
  float lse[R][2], delta[R][2];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    unsigned out[D / 16][4];
    load_own_rows<D>(dout[r], arrays.dout + head.out(shape), shape.out_stride, first + 16 * r,
                     shape);
    load_own_rows<D>(out, arrays.out + head.out(shape), shape.out_stride, first + 16 * r, shape);
    load_own_rows<D>(q[r], arrays.qkv + head.qkv(shape), shape.qkv_stride, first + 16 * r, shape);
    dot_own_rows<D>(delta[r], dout[r], out);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int row = first + 16 * r + lane.g + 8 * half;
      bool inside = row < shape.tokens;
      lse[r][half] = inside ? arrays.lse[head.row(shape) + row] * kLog2E : kNoRow<kBiased>;
      if (inside && lane.t == 0) {
        arrays.statistics[head.row(shape) + row] = {lse[r][half], delta[r][half]};
      }
    }
  }

  [[maybe_unused]] HeadBias<kBiased> bias(grid, shape, head, kLog2E);
  [[maybe_unused]] Places<kBiased, 2 * R> queries(grid, first + lane.g, 8);
  [[maybe_unused]] BiasGradient<kBiased> dbias;
  float dq[R][D / 8][4] = {};
#pragma unroll 1
  for (int row = 0; row < shape.tokens; row += 16) {
    if (row % kTileRows == 0) {
      copies.wait<0>();
      __syncthreads();
      if (row + kTileRows < shape.tokens) stream(row + kTileRows);
    }
    if (first >= shape.tokens) continue;
    int left = shape.tokens - row;
    const bfloat16* k = at_row<D>(shared, row);
    const bfloat16* v = k + kRingSize<D>;
    float s[R][2][4] = {}, dp[R][2][4];
#pragma unroll
    for (int i = 0; i < R * 8; ++i) dp[i / 8][i / 4 % 2][i % 4] = -delta[i / 8][i % 4 / 2];
    scores<D, R>(dp, dout, v);
    scores<D, R>(s, q, k);
    [[maybe_unused]] PlacePair keys[2];
    if constexpr (kBiased) {
#pragma unroll
      for (int j = 0; j < 2; ++j) keys[j] = load_places(places + row % kRingRows + 8 * j);
    }
    unsigned ds[R][4];
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        int half = i % 4 / 2;
        float shift = -lse[r][half];
        if constexpr (kBiased) shift += bias(queries.at[2 * r + half], keys[i / 4].at[i % 2]);
        float p = cuda::exp2_approximate(fmaf(s[r][i / 4][i % 4], arrays.score_scale, shift));
        dp[r][i / 4][i % 4] *= p;
      }
      if (left < 16) {  // what is not there has no gradient, whatever p would be
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          if (i / 4 * 8 + 2 * lane.t + i % 2 >= left) dp[r][i / 4][i % 4] = 0;
        }
      }
      if constexpr (kBiased) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          dbias.take(dp[r][i / 4][i % 4], queries.at[2 * r + i % 4 / 2], keys[i / 4].at[i % 2]);
        }
      }
      pack_operand(ds[r], dp[r]);
    }
    accumulate<D, R>(dq, ds, k);
  }
  __syncthreads();

  head = head.recomputed();
  dbias.store(grid, shape, head);
  if (first >= shape.tokens) return;
  const float factor[2] = {arrays.scale, arrays.scale};
#pragma unroll
  for (int r = 0; r < R; ++r) {
    store_own_rows<D>(dq[r], factor, shared + warp * 16 * kRowStride<D>,
                      arrays.dqkv + head.qkv(shape), shape.qkv_stride, first + 16 * r, shape);
  }
}

template <int D, bool kBiased>
__global__ void __launch_bounds__(BackwardKeys<D, kBiased>::kMaxThreads,
                                  BackwardKeys<D, kBiased>::kBlocksPerSm)
    attention_backward_keys_kernel(HeadShape shape, BackwardArrays arrays, GridBias<kBiased> grid) {
  using K = BackwardKeys<D, kBiased>;
  constexpr int R = K::kTiles;
  DTN_SHARED(bfloat16, shared);  // [queries, douts][kRingRows, kRowStride], statistics, places
  auto* statistics = reinterpret_cast<RowStatistics*>(shared + 2 * kRingSize<D>);
  [[maybe_unused]] auto* places = reinterpret_cast<Place*>(statistics + kRingRows);
  BlockHead head = block_head(shape);
  int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  int warps = static_cast<int>(blockDim.x) / cuda::kWarpSize;
  int first = (head.block * warps + warp) * K::kRowsPerWarp;
  Lane lane = this_lane();

  cuda::AsyncCopies copies;
  auto stream = [&](int row) {
    BlockHead here = head.recomputed();
    const bfloat16* queries = arrays.qkv + here.qkv(shape);
    const bfloat16* douts = arrays.dout + here.out(shape);
    const RowStatistics* from = arrays.statistics + here.row(shape);
    stream_rows<D>(copies, shared, queries, shape.qkv_stride, row, shape);
    stream_rows<D>(copies, shared + kRingSize<D>, douts, shape.out_stride, row, shape);
    for (int i = static_cast<int>(threadIdx.x); i < kTileRows; i += static_cast<int>(blockDim.x)) {
      bool inside = row + i < shape.tokens;
      copies.copy<8>(statistics + (row + i) % kRingRows, from + (inside ? row + i : 0), inside);
    }
    copies.commit();
    stream_places(places, grid, row);
  };
  stream(0);
  unsigned k[R][D / 16][4], v[R][D / 16][4];
  const bfloat16* keys = arrays.qkv + head.qkv(shape) + shape.out_stride;
  const bfloat16* values = keys + shape.out_stride;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    load_own_rows<D>(k[r], keys, shape.qkv_stride, first + 16 * r, shape);
    load_own_rows<D>(v[r], values, shape.qkv_stride, first + 16 * r, shape);
  }

  [[maybe_unused]] HeadBias<kBiased> bias(grid, shape, head, kLog2E);
  [[maybe_unused]] Places<kBiased, 2 * R> own_places(grid, first + lane.g, 8);
  float dk[R][D / 8][4] = {}, dv[R][D / 8][4] = {};
#pragma unroll 1
  for (int row = 0; row < shape.tokens; row += 16) {
    if (row % kTileRows == 0) {
      copies.wait<0>();
      __syncthreads();
      if (row + kTileRows < shape.tokens) stream(row + kTileRows);
    }
    if (first >= shape.tokens) continue;
    int left = shape.tokens - row;
    const bfloat16* q = at_row<D>(shared, row);
    const bfloat16* dout = q + kRingSize<D>;
    const RowStatistics* rows = statistics + row % kRingRows;
    float s[R][2][4] = {}, dp[R][2][4];
    scores<D, R>(s, k, q);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      // lse and delta of queries 2t and 2t + 1
      float4 two = *reinterpret_cast<const float4*>(rows + 8 * j + 2 * lane.t);
      [[maybe_unused]] PlacePair queries;
      if constexpr (kBiased) queries = load_places(places + row % kRingRows + 8 * j);
#pragma unroll
      for (int i = 0; i < R * 4; ++i) {
        float& p = s[i / 4][j][i % 4];
        float shift = i % 2 ? -two.z : -two.x;
        if constexpr (kBiased) shift += bias(queries.at[i % 2], own_places.at[i / 2]);
        p = cuda::exp2_approximate(fmaf(p, arrays.score_scale, shift));
        dp[i / 4][j][i % 4] = i % 2 ? -two.w : -two.y;
      }
    }
    scores<D, R>(dp, v, dout);
    unsigned p[R][4], ds[R][4];
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int i = 0; i < 8; ++i) dp[r][i / 4][i % 4] *= s[r][i / 4][i % 4];
      if (left < 16) {  // what is not there has no gradient, whatever p would be
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          if (i / 4 * 8 + 2 * lane.t + i % 2 < left) continue;
          s[r][i / 4][i % 4] = dp[r][i / 4][i % 4] = 0;
        }
      }
      pack_operand(p[r], s[r]);
      pack_operand(ds[r], dp[r]);
    }
    accumulate<D, R>(dv, p, dout);
    accumulate<D, R>(dk, ds, q);
  }
  __syncthreads();

  if (first >= shape.tokens) return;
  const float one[2] = {1, 1}, factor[2] = {arrays.scale, arrays.scale};
  bfloat16* staging = shared + warp * 16 * kRowStride<D>;
  bfloat16* to = arrays.dqkv + head.recomputed().qkv(shape) + shape.out_stride;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    int row = first + 16 * r;
    store_own_rows<D>(dk[r], factor, staging, to, shape.qkv_stride, row, shape);
    store_own_rows<D>(dv[r], one, staging, to + shape.out_stride, shape.qkv_stride, row, shape);
  }
}

}  // namespace

void tensor_backward(CudaQueue& queue, const AttentionBackward& args, RowStatistics* statistics) {
  BackwardArrays arrays{
      static_cast<const bfloat16*>(args.qkv),  static_cast<const bfloat16*>(args.out),
      static_cast<const bfloat16*>(args.dout), static_cast<const float*>(args.lse),
      static_cast<bfloat16*>(args.dqkv),       statistics,
      static_cast<float>(args.scale),          static_cast<float>(args.scale) * kLog2E};
  HeadShape shape = head_shape(args);
  shape.aligned = args.head_dim % 8 == 0 && starts_aligned(args.qkv) && starts_aligned(args.out) &&
                  starts_aligned(args.dout) && starts_aligned(args.dqkv);
  for_padded_dim(args.head_dim, [&](auto padded) {
    constexpr int D = padded;
    for_bias(args, [&](auto bias) {
      constexpr bool kBiased = decltype(bias)::kBiased;
      auto start = [&](const char* name, auto kernel, auto tuning, Division rows,
                       const GridBias<kBiased>& grid) {
        shape.blocks = rows.blocks;
        launch(
            queue, {name, {args.batch, args.tokens, args.heads, args.head_dim}}, kernel,
            {blocks_for(args.batch * args.heads * rows.blocks, 1),
             static_cast<unsigned>(rows.warps * cuda::kWarpSize), decltype(tuning)::kSharedBytes},
            shape, arrays, grid);
      };
      auto divide = [&](auto tuning) {
        using K = decltype(tuning);
        return divide_rows(args.tokens, K::kRowsPerWarp, K::kMaxWarps);
      };
      BackwardQueries<D, kBiased> queries;
      BackwardKeys<D, kBiased> keys;
      Division rows = divide(queries);
      with_bias_gradient(queue, args, bias, rows.blocks * rows.warps, [&](const auto& grid) {
        start("attention_backward_queries", attention_backward_queries_kernel<D, kBiased>, queries,
              rows, grid);
      });
      start("attention_backward_keys", attention_backward_keys_kernel<D, kBiased>, keys,
            divide(keys), bias);
    });
  });
}

}  // namespace dtn::attention
