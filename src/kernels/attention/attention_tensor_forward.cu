// Forward pass on tensor cores. A warp owns query rows; keys and values stream by. See
// attention_softmax.cuh.
#include "kernels/attention/attention_softmax.cuh"

namespace dtn::attention {
namespace {

// The bias needs registers too.
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
  OnlineSoftmax<D, R, RowBias<R, kBiased>> softmax;
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
      softmax.template step<2>(q, k, v, shape.tokens - row, scale.magnitude, bias, row,
                               AllWeights());
    } else {
      softmax.template step<1>(q, k, v, shape.tokens - row, scale.magnitude, bias, row,
                               AllWeights());
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
      const float sum = sum_of_quad(softmax.sum[r][half]);
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
