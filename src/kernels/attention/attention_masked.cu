// Attention in which not every token sees every other one: over padded sequences, with dropout of
// the weights, and among blocks of tokens.
#include "kernels/attention/attention_rows.cuh"
#include "kernels/pointwise/drop_threshold.h"

namespace dtn::attention {
namespace {

struct DroppedView : SampleView {
  int heads;
  AttentionDropout dropout;
  std::uint32_t threshold;
  float factor_of_kept;

  __device__ __forceinline__ float kept(int image, int head, int i, int j) const {
    if (dropout.p == 0) return 1;
    const PhiloxKey key = key_at_step(dropout.key, dropout.step);
    const Philox4 words =
        philox_group(key, attention_drop_group(dropout.row(image), heads, head, i, j));
    return words.v[i % 4] >> 8 >= threshold ? factor_of_kept : 0.0f;
  }
};

struct BlockView : SampleView {
  BlockTable table;

  template <class F>
  __device__ __forceinline__ void in_block(int b, int count, const F& f) const {
    const int end = (b + 1) * table.block < count ? (b + 1) * table.block : count;
    for (int j = b * table.block; j < end; ++j) f(j);
  }
  template <class F>
  __device__ __forceinline__ void keys(int, int head, int i, int count, const F& f) const {
    const std::int64_t* row = table.seen_by(head, i / table.block);
    const int many = row ? table.width : table.blocks;
    for (int k = 0; k < many; ++k) {
      const int b = row ? static_cast<int>(row[k]) : k;
      if (b >= 0) in_block(b, count, f);
    }
  }
  template <class F>
  __device__ __forceinline__ void queries(int, int head, int j, int count, const F& f) const {
    for (int b = 0; b < table.blocks; ++b) {
      const std::int64_t* row = table.seen_by(head, b);
      bool sees = !row;
      for (int k = 0; k < table.width && !sees; ++k) sees = row[k] == j / table.block;
      if (sees) in_block(b, count, f);
    }
  }
  __device__ __forceinline__ float zero_keys(int head, int i) const {
    return static_cast<float>(table.zero_keys(head, i / table.block, tokens));
  }
};

// Calls f(view, name of the launch), with the first name if there is no table.
template <class Args, class F>
void for_view(const Args& args, const BlockTable& table, const char* name, const char* block_name,
              const F& f) {
  const SampleView all{args.lengths, static_cast<int>(args.tokens)};
  if (table.block > 0) return f(BlockView{all, table}, block_name);
  f(DroppedView{all, static_cast<int>(args.heads), args.dropout, drop_threshold(args.dropout.p),
                static_cast<float>(args.dropout.kept())},
    name);
}

}  // namespace

void masked_forward(CudaQueue& queue, const AttentionForward& args, const BlockTable& table) {
  if (has_tiles(args, table)) return tiles_forward(queue, args, table);
  for_rows(table.block > 0 ? "block_attention" : "attention_forward", args.dtype, args.head_dim,
           [&](auto zero, auto columns) {
             for_view(args, table, "attention_padded_forward", "block_attention_forward",
                      [&](const auto& view, const char* name) {
                        rows_forward<columns>(queue, name, packed_arrays<decltype(zero)>(args),
                                              view, args.batch);
                      });
           });
}

void masked_backward(CudaQueue& queue, const AttentionBackward& args, const BlockTable& table) {
  if (has_tiles(args, table) && starts_aligned(args.dout) && starts_aligned(args.dqkv)) {
    const auto statistics = queue.scratch<RowStatistics>(args.batch * args.heads * args.tokens);
    return tiles_backward(queue, args, table, statistics.get());
  }
  for_rows(table.block > 0 ? "block_attention" : "attention_backward", args.dtype, args.head_dim,
           [&](auto zero, auto columns) {
             using T = decltype(zero);
             RowArrays<T> a = packed_arrays<T>(args);
             a.dout = static_cast<const T*>(args.dout);
             a.dq = static_cast<T*>(args.dqkv);
             a.dk = a.dq + args.heads * args.head_dim, a.dv = a.dk + args.heads * args.head_dim;
             for_view(args, table, "attention_padded_backward", "block_attention_backward",
                      [&](const auto& view, const char* name) {
                        rows_backward<columns>(queue, name, a, view, args.batch);
                      });
           });
}

}  // namespace dtn::attention
