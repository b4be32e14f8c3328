// Attention over padded sequences, and with dropout of the weights. Every token sees all valid
// tokens.
#include "kernels/attention/attention_rows.cuh"
#include "kernels/pointwise/drop_threshold.h"

namespace dtn::attention {
namespace {

struct PaddedView {
  const std::int64_t* lengths;
  int tokens, heads;
  AttentionDropout dropout;
  std::uint32_t threshold;
  float factor_of_kept;

  __device__ __forceinline__ int count(int image) const {
    return lengths ? static_cast<int>(lengths[image]) : tokens;
  }
  template <class F>
  __device__ __forceinline__ void keys(int, int, int, int count, const F& f) const {
    for (int j = 0; j < count; ++j) f(j);
  }
  template <class F>
  __device__ __forceinline__ void queries(int, int, int, int count, const F& f) const {
    for (int i = 0; i < count; ++i) f(i);
  }
  __device__ __forceinline__ float zero_keys(int, int) const { return 0; }
  __device__ __forceinline__ float factor(int, int, int) const { return 1; }
  __device__ __forceinline__ float kept(int image, int head, int i, int j) const {
    if (dropout.p == 0) return 1;
    PhiloxKey key = dropout.key;
    if (dropout.step) key.step = *dropout.step;
    const Philox4 words =
        philox_group(key, attention_drop_group(dropout.row(image), heads, head, i, j));
    return words.v[i % 4] >> 8 >= threshold ? factor_of_kept : 0.0f;
  }
};

template <class Args>
PaddedView view_of(const Args& args) {
  return {args.lengths, static_cast<int>(args.tokens),  static_cast<int>(args.heads),
          args.dropout, drop_threshold(args.dropout.p), static_cast<float>(args.dropout.kept())};
}

}  // namespace

void padded_forward(CudaQueue& queue, const AttentionForward& args) {
  for_rows("attention_forward", args.dtype, args.head_dim, [&](auto zero, auto columns) {
    using T = decltype(zero);
    rows_forward<columns>(queue, "attention_padded_forward", packed_arrays<T>(args, args),
                          view_of(args), args.batch);
  });
}

void padded_backward(CudaQueue& queue, const AttentionBackward& args) {
  for_rows("attention_backward", args.dtype, args.head_dim, [&](auto zero, auto columns) {
    using T = decltype(zero);
    RowArrays<T> a = packed_arrays<T>(args, args);
    a.dout = static_cast<const T*>(args.dout);
    a.dq = static_cast<T*>(args.dqkv);
    a.dk = a.dq + args.heads * args.head_dim, a.dv = a.dk + args.heads * args.head_dim;
    rows_backward<columns>(queue, "attention_padded_backward", a, view_of(args), args.batch);
  });
}

}  // namespace dtn::attention
