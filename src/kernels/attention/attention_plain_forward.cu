// Forward pass on CUDA cores. A block owns query rows; keys and values stream by. The state of the
// softmax is the largest score so far and the sum of exp(s - largest).
#include "kernels/attention/attention_plain.cuh"

namespace dtn::attention {
namespace {

template <int C>
struct PlainForward : Plain<C, C <= 4    ? 8
                               : C <= 12 ? 4
                                         : 2> {
  using K = PlainForward;
  static constexpr std::size_t kSharedBytes =
      (K::kOwnSize + 2 * K::kStreamSize + K::kProbabilities) * sizeof(float);
  static_assert(kSharedBytes <= kMinSharedMemory);
};

// Blocks per multiprocessor, for the launch bounds. With 0 the compiler decides; for the widest
// heads it would then use fewer registers than they need.
template <int C>
inline constexpr int kForwardBlocks = C <= 12 ? 0 : 2;

template <class T, int C, bool kBiased>
__global__ void __launch_bounds__(kPlainThreads, kForwardBlocks<C>)
    attention_plain_forward_kernel(HeadShape shape, const T* qkv, float scale,
                                   GridBias<kBiased> grid, T* out, float* lse) {
  using K = PlainForward<C>;
  constexpr int R = K::kRows;
  DTN_SHARED(float, own);
  float* keys = own + K::kOwnSize;
  float* values = keys + K::kStreamSize;
  float* shared_p = values + K::kStreamSize;
  BlockHead head = block_head(shape);
  const T* from = qkv + head.qkv(shape);
  int first = head.block * K::kOwnRows;
  PlainThread at = plain_thread();

  load_rows<C>(own, from, shape.qkv_stride, first, K::kOwnRows, shape);
  float acc[R][C] = {}, largest[R], sum[R];
#pragma unroll
  for (int r = 0; r < R; ++r) largest[r] = -INFINITY, sum[r] = 0;
  [[maybe_unused]] HeadBias<kBiased> bias(grid, head);
  [[maybe_unused]] Places<kBiased, R> queries(grid, first + at.group, kSharerGroups);
  for (int key = 0; key < shape.tokens; key += kPlainStream) {
    load_rows<C>(keys, from + shape.out_stride, shape.qkv_stride, key, kPlainStream, shape);
    load_rows<C>(values, from + 2 * shape.out_stride, shape.qkv_stride, key, kPlainStream, shape);
    __syncthreads();
    float s[R][2];
    dot<C>(s, own, keys, shape.dim);
    [[maybe_unused]] Places<kBiased, 2> streamed(grid, key + at.sharer, kSharers);
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float score = s[r][j] * scale;
        if constexpr (kBiased) score += bias(queries.at[r], streamed.at[j]);
        s[r][j] = key + at.sharer + j * kSharers < shape.tokens ? score : -INFINITY;
      }
      float factor = take_scores(s[r], largest[r], sum[r]);
#pragma unroll
      for (int c = 0; c < C; ++c) acc[r][c] *= factor;
    }
    share(shared_p, s);
    accumulate<C>(acc, shared_p, values);
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < R; ++r) {
    float total = sum_of_sharers(sum[r]);
    int row = first + at.group + r * kSharerGroups;
    if (row >= shape.tokens) continue;
    if (at.sharer == 0) lse[head.row(shape) + row] = largest[r] + logf(total);
    store_row(out + head.out(shape) + row * shape.out_stride, acc[r], 1 / total, shape.dim);
  }
}

}  // namespace

void plain_forward(CudaQueue& queue, const AttentionForward& args) {
  for_plain("attention_forward", args.dtype, args.head_dim, [&](auto zero, auto columns) {
    using T = decltype(zero);
    constexpr int C = columns;
    using K = PlainForward<C>;
    HeadShape shape = head_shape(args);
    shape.aligned = cuda::is_vectorizable<T>(args.qkv, args.head_dim);
    shape.blocks = static_cast<int>(blocks_for(args.tokens, K::kOwnRows).x);
    for_bias(args, [&](auto bias) {
      for_head_grids(shape, args.batch, [&](dim3 grid) {
        launch(queue,
               {"attention_plain_forward", {args.batch, args.tokens, args.heads, args.head_dim}},
               attention_plain_forward_kernel<T, C, decltype(bias)::kBiased>,
               {grid, kPlainThreads, K::kSharedBytes}, shape, static_cast<const T*>(args.qkv),
               static_cast<float>(args.scale), bias, static_cast<T*>(args.out),
               static_cast<float*>(args.lse));
      });
    });
  });
}

}  // namespace dtn::attention
