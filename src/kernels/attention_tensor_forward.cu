// Forward pass on tensor cores. A warp owns query rows, keys and values stream by.
//
// The softmax is carried from step to step by a shift m and the sum l of 2^(s - m), in base 2 with
// log2(e) scale folded into one multiply-add. m need not be the largest score, only near it: it is
// raised, and what was summed is rescaled, when some score exceeds it by more than kSlack. So p is
// at most 2^kSlack, the sums keep their precision, and after the first keys most steps need no
// exchange between lanes at all.
#include <algorithm>
#include <cmath>

#include "kernels/attention_tensor.cuh"

namespace dtn::attention {
namespace {

constexpr float kSlack = 8;

constexpr Residency forward_residency(int dim) {
  if (dim <= 32) return {2, 4, 4};
  if (dim <= 64) return {2, 4, 3};
  return {1, 6, 2};
}
template <int D>
struct Forward : Resident<forward_residency(D)> {
  static constexpr std::size_t kSharedBytes = 2 * kRingSize<D> * sizeof(bfloat16);
};

// log2(e) scale. The shift takes the largest product for that of the largest score, so a negative
// sign goes to q. The magnitude is not 0: times the -infinity of a key that is not there, that
// would be NaN.
struct Scale {
  float magnitude;
  unsigned sign;  // of two bfloat16

  explicit Scale(double scale)
      : magnitude(std::max(std::abs(static_cast<float>(scale) * kLog2E), 1e-30f)),
        sign(scale < 0 ? 0x80008000u : 0u) {}
};

template <int D>
struct OnlineSoftmax {
  static constexpr int R = Forward<D>::kTiles;
  float acc[R][D / 8][4];
  float shift[R][2], sum[R][2];  // of rows g and g + 8

  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) shift[r][half] = -INFINITY, sum[r][half] = 0;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[r][n][i] = 0;
      }
    }
  }

  // Takes N x 16 more keys; those from `valid` on are not there.
  template <int N>
  __device__ __forceinline__ void step(const unsigned (&q)[R][D / 16][4], const bfloat16* keys,
                                       const bfloat16* values, int valid, float scale) {
    float s[N][R][2][4] = {};
#pragma unroll
    for (int n = 0; n < N; ++n) scores<D, R>(s[n], q, keys + n * 16 * kRowStride<D>);
    if (valid < N * 16) mask(s, valid);
    raise_shift(s, scale);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      unsigned p[R][4];
#pragma unroll
      for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          int half = i % 4 / 2;
          // A row of nothing but -infinity has no shift; its sum stays 0.
          float m = shift[r][half] == -INFINITY ? 0.0f : shift[r][half];
          float& v = s[n][r][i / 4][i % 4];
          v = cuda::exp2_approximate(fmaf(v, scale, -m));
          sum[r][half] += v;
        }
        pack_operand(p[r], s[n][r]);
      }
      accumulate<D, R>(acc, p, values + n * 16 * kRowStride<D>);
    }
  }

 private:
  template <int N>
  static __device__ __forceinline__ void mask(float (&s)[N][R][2][4], int valid) {
    int t = this_lane().t;
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        bool there = n * 16 + i / 4 * 8 + 2 * t + i % 2 < valid;
#pragma unroll
        for (int r = 0; r < R; ++r) {
          if (!there) s[n][r][i / 4][i % 4] = -INFINITY;
        }
      }
    }
  }

  template <int N>
  __device__ __forceinline__ void raise_shift(const float (&s)[N][R][2][4], float scale) {
    float top[R][2];
    bool above = false;
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float m = -INFINITY;
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            m = fmaxf(m, fmaxf(s[n][r][j][2 * half], s[n][r][j][2 * half + 1]));
          }
        }
        top[r][half] = m * scale;
        above = above || top[r][half] > shift[r][half] + kSlack;
      }
    }
    if (!__any_sync(cuda::kWholeWarp, above)) return;
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float m = top[r][half];
        m = fmaxf(m, __shfl_xor_sync(cuda::kWholeWarp, m, 1));
        m = fmaxf(m, __shfl_xor_sync(cuda::kWholeWarp, m, 2));
        // Each row by itself, so that a row's result does not depend on its neighbours.
        if (!(m > shift[r][half] + kSlack)) m = shift[r][half];
        float factor = m == shift[r][half] ? 1.0f : cuda::exp2_approximate(shift[r][half] - m);
        shift[r][half] = m;
        sum[r][half] *= factor;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
          acc[r][n][2 * half] *= factor;
          acc[r][n][2 * half + 1] *= factor;
        }
      }
    }
  }
};

template <int D>
__global__ void __launch_bounds__(Forward<D>::kMaxThreads, Forward<D>::kBlocksPerSm)
    attention_forward_kernel(HeadShape shape, const bfloat16* qkv, Scale scale, bfloat16* out,
                             float* lse) {
  using K = Forward<D>;
  constexpr int R = K::kTiles;
  DTN_SHARED(bfloat16, shared);  // [keys, values][kRingRows, kRowStride]
  BlockHead head = block_head(shape);
  int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  int warps = static_cast<int>(blockDim.x) / cuda::kWarpSize;
  int first = (head.block * warps + warp) * K::kRowsPerWarp;

  cuda::AsyncCopies copies;
  auto stream = [&](int row) {
    const bfloat16* keys = qkv + head.recomputed().qkv(shape) + shape.out_stride;
    const bfloat16* values = keys + shape.out_stride;
    stream_rows<D>(copies, shared, keys, shape.qkv_stride, row, shape);
    stream_rows<D>(copies, shared + kRingSize<D>, values, shape.qkv_stride, row, shape);
    copies.commit();
  };
  stream(0);
  unsigned q[R][D / 16][4];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    load_own_rows<D>(q[r], qkv + head.qkv(shape), shape.qkv_stride, first + 16 * r, shape);
#pragma unroll
    for (int i = 0; i < D / 4; ++i) q[r][i / 4][i % 4] ^= scale.sign;
  }

  OnlineSoftmax<D> softmax;
#pragma unroll 1
  for (int row = 0; row < shape.tokens; row += 32) {
    if (row % kTileRows == 0) {
      copies.wait<0>();
      __syncthreads();
      if (row + kTileRows < shape.tokens) stream(row + kTileRows);
    }
    if (first >= shape.tokens) continue;
    const bfloat16* k = at_row<D>(shared, row);
    const bfloat16* v = k + kRingSize<D>;
    if (shape.tokens - row > 16) {
      softmax.template step<2>(q, k, v, shape.tokens - row, scale.magnitude);
    } else {
      softmax.template step<1>(q, k, v, shape.tokens - row, scale.magnitude);
    }
  }
  __syncthreads();

  if (first >= shape.tokens) return;
  head = head.recomputed();
  Lane lane = this_lane();
#pragma unroll
  for (int r = 0; r < R; ++r) {
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = softmax.sum[r][half];
      sum += __shfl_xor_sync(cuda::kWholeWarp, sum, 1);
      sum += __shfl_xor_sync(cuda::kWholeWarp, sum, 2);
      inverse[half] = 1 / sum;
      int row = first + 16 * r + lane.g + 8 * half;
      if (lane.t == 0 && row < shape.tokens) {
        lse[head.row(shape) + row] = softmax.shift[r][half] * kLn2 + logf(sum);
      }
    }
    store_own_rows<D>(softmax.acc[r], inverse, shared + warp * 16 * kRowStride<D>,
                      out + head.out(shape), shape.out_stride, first + 16 * r, shape);
  }
}

}  // namespace

void tensor_forward(CudaQueue& queue, const AttentionForward& args) {
  for_padded_dim(args.head_dim, [&](auto padded) {
    constexpr int D = padded;
    using K = Forward<D>;
    HeadShape shape = head_shape(args);
    shape.aligned = args.head_dim % 8 == 0 && starts_aligned(args.qkv) && starts_aligned(args.out);
    Division rows = divide_rows(args.tokens, K::kRowsPerWarp, K::kMaxWarps);
    shape.blocks = rows.blocks;
    launch(queue, {"attention_forward", {args.batch, args.tokens, args.heads, args.head_dim}},
           attention_forward_kernel<D>,
           {blocks_for(args.batch * args.heads * rows.blocks, 1),
            static_cast<unsigned>(rows.warps * cuda::kWarpSize), K::kSharedBytes},
           shape, static_cast<const bfloat16*>(args.qkv), Scale(args.scale),
           static_cast<bfloat16*>(args.out), static_cast<float*>(args.lse));
  });
}

}  // namespace dtn::attention
