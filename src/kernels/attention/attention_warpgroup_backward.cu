// Backward pass by products of warpgroups: one kernel, five products, each score computed once. A
// block computes one head. A warpgroup owns 64 keys, and the queries stream by, 32 at a time:
//    s = k q^T        p = exp(s - lse)        dp = v dout^T        ds = p (dp - delta)
//    dv += p dout     dk += ds q
// All are [keys, queries], so that p and ds are left operands as they lie in registers. Each ds
// also goes to shared memory. When all of ds is there, each warpgroup computes dq = ds^T k for 64
// queries. No two warpgroups add to the same values, and the block has two barriers in total.
//
// ds of a whole head takes T x T values. Therefore a multiprocessor holds one block. Its 512
// threads have 128 registers each, enough for D = 48 but not for 64.
//
// Cost for T = 196, D = 48, 2304 heads on an H200: 256 keys by 224 queries are 63 GFLOP, 100 us at
// 650 TFLOP/s. Left operands from shared memory make s and dp take 1.5 times as long. Arrays of 262
// MB take 61 us. While a block loads its arrays, nothing else runs on its multiprocessor.
#include "kernels/attention/attention_tensor_backward.cuh"
#include "kernels/attention/attention_warpgroup.cuh"

namespace dtn::attention {
namespace {

constexpr int kQueriesAtOnce = 32;

// Layout of a block's arrays in shared memory; all arrays of bfloat16 are core matrices.
template <int kKeys, int D>
struct BackwardLayout {
  static constexpr int keys = kKeys;  // rows of k and v, a multiple of 16
  int queries;                        // rows of q and dout: tokens, rounded up
  int ds_columns;

  __host__ __device__ explicit BackwardLayout(int tokens)
      : queries(round_up_to(tokens, kQueriesAtOnce)),
        ds_columns(round_up_to(tokens, cuda::kWarpgroupRows)) {}

  __host__ __device__ int douts_at() const { return queries * D; }
  __host__ __device__ int keys_at() const { return 2 * queries * D; }
  __host__ __device__ int values_at() const { return keys_at() + keys * D; }
  __host__ __device__ int ds_at() const { return values_at() + keys * D; }  // [keys, ds_columns]
  __host__ __device__ int statistics_at() const { return ds_at() + keys * ds_columns; }
  __host__ __device__ std::size_t bytes() const {
    return sizeof(bfloat16) * static_cast<std::size_t>(statistics_at()) +
           sizeof(RowStatistics) * static_cast<std::size_t>(queries);
  }
};

// Copies dout into shared memory and computes the statistics of its rows. A warp takes eight rows
// at a time; each lane copies 16-byte pieces of one row.
template <int D>
__device__ __forceinline__ void take_douts(bfloat16* douts, RowStatistics* statistics, int rows,
                                           const HeadShape& shape, const BackwardArrays& arrays,
                                           BlockHead head) {
  constexpr int kPieces = D / 8;
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
#pragma unroll 1
  for (int first = 8 * warp; first < rows; first += static_cast<int>(blockDim.x) / 4) {
    const int row = first + lane % 8;
    const bool inside = row < shape.tokens;
    const std::int64_t offset = head.out(shape) + (inside ? row : 0) * shape.out_stride;
    float delta = 0;
#pragma unroll
    for (int piece = lane / 8; piece < kPieces; piece += 4) {
      uint4 d = {}, o = {};
      if (inside) {
        d = *reinterpret_cast<const uint4*>(arrays.dout + offset + piece * 8);
        o = *reinterpret_cast<const uint4*>(arrays.out + offset + piece * 8);
      }
      *reinterpret_cast<uint4*>(douts + cuda::core_offset(row, piece * 8, D)) = d;
      const unsigned x[4] = {d.x, d.y, d.z, d.w}, y[4] = {o.x, o.y, o.z, o.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        delta = fmaf(cuda::low_bfloat16(x[i]), cuda::low_bfloat16(y[i]), delta);
        delta = fmaf(cuda::high_bfloat16(x[i]), cuda::high_bfloat16(y[i]), delta);
      }
    }
    delta += __shfl_xor_sync(cuda::kWholeWarp, delta, 8);
    delta += __shfl_xor_sync(cuda::kWholeWarp, delta, 16);
    if (lane < 8) {
      statistics[row] = {inside ? arrays.lse[head.row(shape) + row] * kLog2E : 0, delta};
    }
  }
}

// The scores of a warp's 16 keys, in rows g and g + 8, with 32 queries.
struct KeyTile {
  float s[kQueriesAtOnce / 8][4], dp[kQueriesAtOnce / 8][4];
  unsigned p[kQueriesAtOnce / 16][4], ds[kQueriesAtOnce / 16][4];  // rounded, left operands

  // Computes p and ds from s and dp. Unless kAll, both are 0 if keys[half] is false (the key of row
  // g or g + 8 does not exist), and for queries from `queries` on.
  template <bool kAll>
  __device__ __forceinline__ void differentiate(const RowStatistics* statistics, float score_scale,
                                                const bool (&keys)[2], int queries, Lane lane) {
#pragma unroll
    for (int n = 0; n < kQueriesAtOnce / 8; ++n) {
      const float4 of_two = *reinterpret_cast<const float4*>(statistics + 8 * n + 2 * lane.t);
      const float lse[2] = {of_two.x, of_two.z}, delta[2] = {of_two.y, of_two.w};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float weight[2], gradient[2];
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const int i = 2 * half + side;
          weight[side] = cuda::exp2_approximate(fmaf(s[n][i], score_scale, -lse[side]));
          gradient[side] = weight[side] * (dp[n][i] - delta[side]);
          if constexpr (!kAll) {
            const bool there = keys[half] && 8 * n + 2 * lane.t + side < queries;
            if (!there) weight[side] = gradient[side] = 0;
          }
        }
        p[n / 2][n % 2 * 2 + half] = cuda::pack_bfloat16(weight[0], weight[1]);
        ds[n / 2][n % 2 * 2 + half] = cuda::pack_bfloat16(gradient[0], gradient[1]);
      }
    }
  }

  // Writes ds into [keys, columns] in shared memory, from key `row` and query `column` on.
  __device__ __forceinline__ void store(bfloat16* to, int row, int column, int columns,
                                        Lane lane) const {
#pragma unroll
    for (int n = 0; n < kQueriesAtOnce / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        bfloat16* core = to + cuda::core_offset(row + 8 * half, column + 8 * n, columns);
        reinterpret_cast<unsigned*>(core)[lane.index] = ds[n / 2][n % 2 * 2 + half];
      }
    }
  }
};

template <int kKeys, int D>
__global__ void __launch_bounds__(4 * cuda::kWarpgroupThreads, 1)
    attention_backward_warpgroup_kernel(HeadShape shape, BackwardArrays arrays) {
  using cuda::Depth;
  DTN_SHARED(bfloat16, shared);
  const BackwardLayout<kKeys, D> layout(shape.tokens);
  bfloat16 *queries = shared, *douts = shared + layout.douts_at();
  bfloat16 *keys = shared + layout.keys_at(), *values = shared + layout.values_at();
  bfloat16* ds = shared + layout.ds_at();
  auto* statistics = reinterpret_cast<RowStatistics*>(shared + layout.statistics_at());
  const BlockHead head = block_head(shape);
  const GroupLane lane = this_group_lane();
  const int first =
      lane.group * cuda::kWarpgroupRows;  // first of the group's keys, later of its queries
  const int row = first + lane.warp_row;

  cuda::AsyncCopies copies;
  const bfloat16* qkv = arrays.qkv + head.qkv(shape);
  copy_head_rows<D>(copies, queries, qkv, shape.qkv_stride, layout.queries, shape);
  copy_head_rows<D>(copies, keys, qkv + shape.out_stride, shape.qkv_stride, layout.keys, shape);
  copy_head_rows<D>(copies, values, qkv + 2 * shape.out_stride, shape.qkv_stride, layout.keys,
                    shape);
  copies.commit();
  take_douts<D>(douts, statistics, layout.queries, shape, arrays, head);
  copies.wait<0>();
  cuda::sync_for_products();

  cuda::WarpgroupProducts products;
  float dk[D / 8][4] = {}, dv[D / 8][4] = {};
  const bool there[2] = {row + lane.g < shape.tokens, row + lane.g + 8 < shape.tokens};
  KeyTile tile;
  // Eight rows of core matrices take 8 D values, so the group's 64 keys begin at value first * D.
  const cuda::SharedOperand<Depth::kColumns> own_keys(keys + first * D, D);
  const cuda::SharedOperand<Depth::kColumns> own_values(values + first * D, D);
#pragma unroll 1
  for (int query = 0; query < layout.queries; query += kQueriesAtOnce) {
    const cuda::SharedOperand<Depth::kColumns> q(queries + query * D, D),
        dout(douts + query * D, D);
    products.begin();
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
      products.multiply(tile.s, own_keys.after(k), q.after(k), k > 0);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      products.multiply(tile.dp, own_values.after(k), dout.after(k), k > 0);
    }
    products.commit();
    products.template wait<0>(tile.s, tile.dp);
    const int left = shape.tokens - query;
    if (row + 16 <= shape.tokens && left >= kQueriesAtOnce) {
      tile.template differentiate<true>(statistics + query, arrays.score_scale, there, left, lane);
    } else {
      tile.template differentiate<false>(statistics + query, arrays.score_scale, there, left, lane);
    }
    if (row < layout.keys) tile.store(ds, row, query, layout.ds_columns, lane);
    const cuda::SharedOperand<Depth::kRows> q_rows(queries + query * D, D);
    const cuda::SharedOperand<Depth::kRows> dout_rows(douts + query * D, D);
    products.begin();
#pragma unroll
    for (int k = 0; k < kQueriesAtOnce / 16; ++k) {
      products.multiply(dv, tile.p[k], dout_rows.after(k), true);
      products.multiply(dk, tile.ds[k], q_rows.after(k), true);
    }
    products.commit();
    products.template wait<0>(dv, dk);
  }
  cuda::sync_for_products();

  if (row < shape.tokens) {  // queries and douts are no longer needed
    bfloat16* staging = shared + row * kRowStride<D>;
    bfloat16* to = arrays.dqkv + head.qkv(shape) + shape.out_stride;
    const float scale[2] = {arrays.scale, arrays.scale}, one[2] = {1, 1};
    store_own_rows<D, true>(dk, scale, staging, to, shape.qkv_stride, row, shape);
    store_own_rows<D, true>(dv, one, staging, to + shape.out_stride, shape.qkv_stride, row, shape);
  }
  float dq[D / 8][4];
  const cuda::SharedOperand<Depth::kRows> own_ds(ds + first * 8, layout.ds_columns);
  const cuda::SharedOperand<Depth::kRows> all_keys(keys, D);
  products.begin();
  // Unrolled, because products in a loop would wait for each other.
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
    products.multiply(dq, own_ds.after(k), all_keys.after(k), k > 0);
  }
  products.commit();
  products.template wait<0>(dq);
  if (row < shape.tokens) {
    const float scale[2] = {arrays.scale, arrays.scale};
    store_own_rows<D, true>(dq, scale, shared + row * kRowStride<D>, arrays.dqkv + head.qkv(shape),
                            shape.qkv_stride, row, shape);
  }
}

// Calls f(integral constant kKeys): at least `tokens`, and at most 64 keys per warpgroup.
template <class F>
void for_key_rows(std::int64_t tokens, F&& f) {
  if (tokens <= 192) return f(std::integral_constant<int, 192>{});
  if (tokens <= 208) return f(std::integral_constant<int, 208>{});
  f(std::integral_constant<int, kMaxWarpgroupTokens>{});
}

}  // namespace

std::size_t warpgroup_backward_bytes(std::int64_t tokens) {
  std::size_t bytes = 0;
  for_key_rows(tokens, [&](auto keys) {
    bytes = BackwardLayout<keys, 48>(static_cast<int>(tokens)).bytes();
  });
  return bytes;
}

void warpgroup_backward(CudaQueue& queue, const AttentionBackward& args) {
  constexpr int D = 48;
  DTN_CHECK(args.head_dim == D, "attention: no warpgroup kernel of the backward pass for heads of ",
            args.head_dim, " channels");
  const BackwardArrays arrays = backward_arrays(args, nullptr);
  HeadShape shape = head_shape(args);
  shape.blocks = 1;
  const auto threads = static_cast<unsigned>(round_up_to(shape.tokens, cuda::kWarpgroupRows) /
                                             cuda::kWarpgroupRows * cuda::kWarpgroupThreads);
  for_key_rows(args.tokens, [&](auto keys) {
    for_head_grids(shape, args.batch, [&](dim3 blocks) {
      launch(queue,
             {"attention_backward_warpgroup", {args.batch, args.tokens, args.heads, args.head_dim}},
             attention_backward_warpgroup_kernel<keys, D>,
             {blocks, threads, BackwardLayout<keys, D>(shape.tokens).bytes()}, shape, arrays);
    });
  });
}

}  // namespace dtn::attention
