// Forward pass by products of warpgroups. A block is one warpgroup and computes one head. It takes
// 64 queries at a time with all their scores at once. So the softmax is complete in one step, and
// no shift is carried.
//
// Cost for T = 196, D = 48, 2304 heads on an H200: 4 groups of 64 queries by 208 keys are 23.6
// GFLOP, 36 us at 650 TFLOP/s. The exponentials take 33 us, including those of missing queries.
// Memory takes 41 us. Three blocks share a multiprocessor, so that the products of one overlap with
// the softmax of another.
#include "kernels/attention/attention_warpgroup.cuh"

namespace dtn::attention {
namespace {

template <int kKeys, int D>
struct WarpgroupForward {
  static constexpr int kBlocksPerSm = kKeys <= 208 ? 3 : 2;
  static constexpr int kStaging = 4 * 16 * kRowStride<D>;
  static constexpr std::size_t kSharedBytes = (2 * kKeys * D + kStaging) * sizeof(bfloat16);
};

// The softmax of a thread's scores, in two of the 64 rows.
template <int kKeys>
struct WholeSoftmax {
  unsigned p[kKeys / 16][4];  // rounded; left operand of the product with the values
  float shift[2], sum[2];     // of rows g and g + 8; the whole sum of unrounded p

  // Computes the softmax of scores s. Keys from `tokens` on do not exist.
  __device__ __forceinline__ void take(float (&s)[kKeys / 8][4], int tokens, float scale,
                                       Lane lane) {
    mask(s, tokens, lane);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float m = -INFINITY;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) m = fmaxf(m, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      m = max_of_quad(m) * scale;
      // A row with only -infinity has no shift; its sum stays 0.
      shift[half] = m == -INFINITY ? 0.0f : m;
      sum[half] = 0;
    }
    // Both rows are converted together, so that the registers of their scores are free when p needs
    // registers.
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float low = weight(s[n][2 * half], scale, half);
        const float high = weight(s[n][2 * half + 1], scale, half);
        sum[half] += low + high;
        p[n / 2][n % 2 * 2 + half] = cuda::pack_bfloat16(low, high);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) sum[half] = sum_of_quad(sum[half]);
  }

 private:
  __device__ __forceinline__ float weight(float score, float scale, int half) const {
    return cuda::exp2_approximate(fmaf(score, scale, -shift[half]));
  }

  static __device__ __forceinline__ void mask(float (&s)[kKeys / 8][4], int tokens, Lane lane) {
#pragma unroll
    for (int n = kMinWarpgroupTokens / 8; n < kKeys / 8; ++n) {
      if (8 * n + 8 <= tokens) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (8 * n + 2 * lane.t + i % 2 >= tokens) s[n][i] = -INFINITY;
      }
    }
  }
};

template <int kKeys, int D>
__global__ void __launch_bounds__(cuda::kWarpgroupThreads, WarpgroupForward<kKeys, D>::kBlocksPerSm)
    attention_forward_warpgroup_kernel(HeadShape shape, const bfloat16* qkv, Scale scale,
                                       bfloat16* out, float* lse) {
  using cuda::Depth;
  DTN_SHARED(bfloat16, keys);  // [kKeys, D]; then the values, likewise, and staging rows
  bfloat16* values = keys + kKeys * D;
  const BlockHead head = block_head(shape);
  const GroupLane lane = this_group_lane();
  const bfloat16* queries = qkv + head.qkv(shape);

  cuda::AsyncCopies copies;
  for (int i = 1; i <= 2; ++i) {
    copy_head_rows<D>(copies, keys + (i - 1) * kKeys * D, queries + i * shape.out_stride,
                      shape.qkv_stride, kKeys, shape);
    copies.commit();
  }
  unsigned q[D / 16][4];
  load_own_rows<D, true>(q, queries, shape.qkv_stride, lane.warp_row, shape);
  copies.wait<1>();
  cuda::sync_for_products();

  const cuda::SharedOperand<Depth::kColumns> keys_operand(keys, D);
  const cuda::SharedOperand<Depth::kRows> values_operand(values, D);
  cuda::WarpgroupProducts products;
#pragma unroll 1
  for (int first = 0; first < shape.tokens; first += cuda::kWarpgroupRows) {
    const int row = first + lane.warp_row;  // of this warp
    float s[kKeys / 8][4];
#pragma unroll
    for (int i = 0; i < D / 4; ++i) q[i / 4][i % 4] ^= scale.sign;
    products.begin();
#pragma unroll
    for (int k = 0; k < D / 16; ++k) products.multiply(s, q[k], keys_operand.after(k), k > 0);
    products.commit();
    products.template wait<0>(s);

    WholeSoftmax<kKeys> softmax;
    softmax.take(s, shape.tokens, scale.magnitude, lane);
    if (first == 0) {
      copies.wait<0>();
      cuda::sync_for_products();
    }
    float o[D / 8][4];
    products.begin();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      products.multiply(o, softmax.p[k], values_operand.after(k), k > 0);
    }
    products.commit();
    // The next queries are loaded meanwhile. Their address is computed only now, because earlier
    // there are no free registers for either.
    load_own_rows<D, true>(q, qkv + block_head(shape).recomputed().qkv(shape), shape.qkv_stride,
                           row + cuda::kWarpgroupRows, shape);
    products.template wait<0>(o);

    if (row >= shape.tokens) continue;
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      inverse[half] = 1 / softmax.sum[half];
      const int at = row + lane.g + 8 * half;
      if (lane.t == 0 && at < shape.tokens) {
        lse[head.row(shape) + at] = softmax.shift[half] * kLn2 + logf(softmax.sum[half]);
      }
    }
    bfloat16* staging = values + kKeys * D + lane.warp_row * kRowStride<D>;
    store_own_rows<D, true>(o, inverse, staging, out + head.out(shape), shape.out_stride, row,
                            shape);
  }
}

}  // namespace

void warpgroup_forward(CudaQueue& queue, const AttentionForward& args) {
  for_warpgroup_dim(args.head_dim, [&](auto dim) {
    constexpr int D = dim;
    const auto start = [&](auto keys) {
      using K = WarpgroupForward<keys, D>;
      HeadShape shape = head_shape(args);
      shape.blocks = 1;
      for_head_grids(shape, args.batch, [&](dim3 blocks) {
        launch(
            queue,
            {"attention_forward_warpgroup", {args.batch, args.tokens, args.heads, args.head_dim}},
            attention_forward_warpgroup_kernel<keys, D>,
            {blocks, cuda::kWarpgroupThreads, K::kSharedBytes}, shape,
            static_cast<const bfloat16*>(args.qkv), Scale(args.scale),
            static_cast<bfloat16*>(args.out), static_cast<float*>(args.lse));
      });
    };
    if (args.tokens <= 208) {
      start(std::integral_constant<int, 208>{});
    } else {
      start(std::integral_constant<int, kMaxWarpgroupTokens>{});
    }
  });
}

}  // namespace dtn::attention
