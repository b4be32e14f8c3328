// Forward pass on CUDA cores. A block owns query rows of one head; keys and values stream by. The
// state of the softmax is the largest score so far and the sum of exp(s - largest).
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
// heads, and inside groups, it would then use fewer registers than it needs.
template <int C, class Terms>
inline constexpr int kForwardBlocks = C > 12 || kIsGrouped<Terms> ? 2 : 0;

template <class T, int C, class Terms>
__global__ void __launch_bounds__(kPlainThreads, kForwardBlocks<C, Terms>)
    attention_plain_forward_kernel(GroupedShape shape, GroupedInputs<T> in, GroupedRows<T> out,
                                   float* lse, Terms terms) {
  using K = PlainForward<C>;
  constexpr int R = K::kRows;
  constexpr bool kGrouped = kIsGrouped<Terms>;
  DTN_SHARED(float, own);
  float* keys = own + K::kOwnSize;
  float* values = keys + K::kStreamSize;
  float* shared_p = values + K::kStreamSize;
  const BlockHead head = block_head(shape);
  const int first = head.block * K::kOwnRows;
  const PlainThread at = plain_thread();

  load_rows<C, kGrouped>(own, shape, in.q, head, shape.queries, first, K::kOwnRows, shape.key_dim);
  float acc[R][C] = {}, largest[R], sum[R];
#pragma unroll
  for (int r = 0; r < R; ++r) largest[r] = -INFINITY, sum[r] = 0;
  const ThreadTerms<Terms, R, true> of_thread(terms, shape, head, first + at.group);
  for (int key = 0; key < shape.keys; key += kPlainStream) {
    load_rows<C, kGrouped>(keys, shape, in.k, head, shape.keys, key, kPlainStream, shape.key_dim);
    load_rows<C, kGrouped>(values, shape, in.v, head, shape.keys, key, kPlainStream,
                           shape.value_dim);
    __syncthreads();
    float s[R][2];
    dot<C>(s, own, keys, shape.key_dim);
    const auto streamed = of_thread.streamed(key + at.sharer);
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float score = of_thread.add_to(s[r][j] * shape.scale, r, streamed, j);
        s[r][j] = key + at.sharer + j * kSharers < shape.keys ? score : -INFINITY;
      }
      float factor = take_scores(s[r], largest[r], sum[r]);
#pragma unroll
      for (int c = 0; c < C; ++c) acc[r][c] *= factor;
    }
    share(shared_p, s);
    accumulate<C>(acc, shared_p, values);
    __syncthreads();
  }

  const auto out_rows = unit_rows<kGrouped>(shape, out, head, shape.queries);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    float total = sum_of_sharers(sum[r]);
    const int row = first + at.group + r * kSharerGroups;
    if (row >= shape.queries) continue;
    if (at.sharer == 0) lse[shape.row(head) + row] = largest[r] + logf(total);
    store_row(out_rows(row), acc[r], 1 / total, shape.value_dim);
  }
}

template <class T, int C, class Terms>
void start(CudaQueue& queue, const KernelName& name, const GroupedAttentionForward& args,
           const Terms& terms) {
  using K = PlainForward<C>;
  const GroupedAttentionProblem& p = args.problem;
  launch_for_units(queue, name, attention_plain_forward_kernel<T, C, Terms>, kPlainThreads,
                   K::kSharedBytes, grouped_shape<T>(p), p, p.queries, K::kOwnRows,
                   grouped_inputs<T>(p), grouped_outputs<T>(p, args.out),
                   static_cast<float*>(args.lse), terms);
}

}  // namespace

void plain_forward(CudaQueue& queue, const AttentionForward& args) {
  for_plain("attention_forward", args.dtype, args.head_dim, [&](auto zero, auto columns) {
    for_bias(args, [&](const auto& bias) {
      start<decltype(zero), columns>(
          queue, {"attention_plain_forward", {args.batch, args.tokens, args.heads, args.head_dim}},
          {one_group(args), args.out, args.lse}, bias);
    });
  });
}

void grouped_plain_forward(CudaQueue& queue, const GroupedAttentionForward& args) {
  const char* name = "grouped_attention_forward";
  for_grouped_plain(name, args.problem, [&](auto zero, auto columns) {
    start<decltype(zero), columns>(queue, grouped_kernel_name(name, args.problem), args,
                                   GroupTerms());
  });
}

}  // namespace dtn::attention
