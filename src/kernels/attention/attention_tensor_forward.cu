// Forward pass on tensor cores. A warp owns query rows, keys and values stream by.
//
// The softmax is carried from step to step by a shift m and the sum l of 2^(s - m), in base 2 with
// log2(e) scale folded into one multiply-add. m need not be the largest score, only near it: it is
// raised, and what was summed is rescaled, when some score exceeds it by more than kSlack. So p is
// at most 2^kSlack, the sums keep their precision, and after the first keys most steps need no
// exchange between lanes at all.
#include "kernels/attention/attention_tensor.cuh"

namespace dtn::attention {
namespace {

constexpr float kSlack = 8;

// A bias takes registers, too.
template <bool kBiased>
constexpr Residency forward_residency(int dim) {
  if (dim <= (kBiased ? 16 : 32)) return {2, 4, 4};
  if (dim <= (kBiased ? 48 : 64)) return {2, 4, 3};
  if (dim <= 64) return {1, 7, 2};
  return {1, kBiased && dim > 96 ? 5 : 6, 2};
}
template <int D, bool kBiased>
struct Forward : Resident<forward_residency<kBiased>(D)> {
  static constexpr std::size_t kSharedBytes =
      2 * kRingSize<D> * sizeof(bfloat16) + kPlaceBytes<kBiased>;
};

// The positional bias of a warp's rows, base 2.
template <int R, bool kBiased>
struct RowBias {
  HeadBias<kBiased> bias;
  Places<kBiased, 2 * R> queries;  // row g + 8 i
  const Place* keys;               // ring

  // s = scale s + bias, for 16 keys.
  __device__ __forceinline__ void add(float (&s)[R][2][4], int row, float scale) const {
    if constexpr (kBiased) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        PlacePair columns = load_places(keys + row % kRingRows + 8 * j);
#pragma unroll
        for (int i = 0; i < 4 * R; ++i) {
          float& v = s[i / 4][j][i % 4];
          v = fmaf(v, scale, bias(queries.at[i / 2], columns.at[i % 2]));
        }
      }
    }
  }
};

template <int D, bool kBiased>
struct OnlineSoftmax {
  static constexpr int R = Forward<D, kBiased>::kTiles;
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
                                       const bfloat16* values, int valid, float scale,
                                       [[maybe_unused]] const RowBias<R, kBiased>& bias,
                                       [[maybe_unused]] int row) {
    float s[N][R][2][4] = {};
#pragma unroll
    for (int n = 0; n < N; ++n) scores<D, R>(s[n], q, keys + n * 16 * kRowStride<D>);
    if (valid < N * 16) mask(s, valid);
    if constexpr (kBiased) {
#pragma unroll
      for (int n = 0; n < N; ++n) bias.add(s[n], row + n * 16, scale);
      scale = 1;
    }
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

template <int D, bool kAligned, bool kBiased>
__global__ void __launch_bounds__(Forward<D, kBiased>::kMaxThreads,
                                  Forward<D, kBiased>::blocks_per_sm(kAligned))
    attention_forward_kernel(HeadShape shape, const bfloat16* qkv, Scale scale,
                             GridBias<kBiased> grid, bfloat16* out, float* lse) {
  using K = Forward<D, kBiased>;
  constexpr int R = K::kTiles;
  DTN_SHARED(bfloat16, shared);  // [keys, values][kRingRows, kRowStride], places
  [[maybe_unused]] auto* places = reinterpret_cast<Place*>(shared + 2 * kRingSize<D>);
  BlockHead head = block_head(shape);
  int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
  int warps = static_cast<int>(blockDim.x) / cuda::kWarpSize;
  int first = (head.block * warps + warp) * K::kRowsPerWarp;

  cuda::AsyncCopies copies;
  auto stream = [&](int row) {
    const bfloat16* keys = qkv + head.qkv(shape) + shape.out_stride;
    stream_rows<D, kAligned>(copies, shared,
                             {keys, shape.qkv_stride, keys + shape.out_stride, shape.qkv_stride},
                             row, shape);
    copies.commit();
    stream_places(places, grid, row);
  };
  stream(0);
  unsigned q[R][D / 16][4];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    load_own_rows<D, kAligned>(q[r], qkv + head.qkv(shape), shape.qkv_stride, first + 16 * r,
                               shape);
#pragma unroll
    for (int i = 0; i < D / 4; ++i) q[r][i / 4][i % 4] ^= scale.sign;
  }

  const int g = this_lane().g;
  RowBias<R, kBiased> bias{{grid, head, kLog2E}, {grid, first + g, 8}, places};
  OnlineSoftmax<D, kBiased> softmax;
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
      softmax.template step<2>(q, k, v, shape.tokens - row, scale.magnitude, bias, row);
    } else {
      softmax.template step<1>(q, k, v, shape.tokens - row, scale.magnitude, bias, row);
    }
  }
  __syncthreads();

  if (first >= shape.tokens) return;
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
    store_own_rows<D, kAligned>(softmax.acc[r], inverse, shared + warp * 16 * kRowStride<D>,
                                out + head.out(shape), shape.out_stride, first + 16 * r, shape);
  }
}

}  // namespace

void tensor_forward(CudaQueue& queue, const AttentionForward& args) {
  const bool is_aligned =
      args.head_dim % 8 == 0 && starts_aligned(args.qkv) && starts_aligned(args.out);
  for_head_rows(args.head_dim, is_aligned, [&](auto padded, auto aligned) {
    constexpr int D = padded;
    HeadShape shape = head_shape(args);
    for_bias(args, [&](auto bias) {
      constexpr bool kBiased = decltype(bias)::kBiased;
      using K = Forward<D, kBiased>;
      Division rows = divide_rows(args.tokens, K::kRowsPerWarp, K::kMaxWarps);
      shape.blocks = rows.blocks;
      for_head_grids(shape, args.batch, [&](dim3 blocks) {
        launch(queue, {"attention_forward", {args.batch, args.tokens, args.heads, args.head_dim}},
               attention_forward_kernel<D, aligned, kBiased>,
               {blocks, static_cast<unsigned>(rows.warps * cuda::kWarpSize), K::kSharedBytes},
               shape, static_cast<const bfloat16*>(args.qkv), Scale(args.scale), bias,
               static_cast<bfloat16*>(args.out), static_cast<float*>(args.lse));
      });
    });
  });
}

}  // namespace dtn::attention
