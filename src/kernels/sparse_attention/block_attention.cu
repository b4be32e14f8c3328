// Block-sparse attention on CUDA devices. It runs by tiles on tensor cores (attention_tiles.cuh),
// or, in float32 and for odd sizes, with one warp per token (attention_rows.cuh).
#include "kernels/attention/attention_rows.cuh"
#include "kernels/sparse_attention/block_attention.h"

namespace dtn {
namespace attention {
namespace {

struct BlockView {
  const std::int64_t* lengths;
  const std::int64_t* seen;  // [H, n, width]
  int tokens, block, blocks, width;
  bool has_zero_keys;

  __device__ __forceinline__ int count(int image) const {
    return lengths ? static_cast<int>(lengths[image]) : tokens;
  }
  // The blocks that a block of queries sees; null: all.
  __device__ __forceinline__ const std::int64_t* seen_by(int head, int row) const {
    if (!seen || row == 0 || row == blocks - 1) return nullptr;
    return seen + (static_cast<std::int64_t>(head) * blocks + row) * width;
  }
  template <class F>
  __device__ __forceinline__ void in_block(int b, int count, const F& f) const {
    const int end = (b + 1) * block < count ? (b + 1) * block : count;
    for (int j = b * block; j < end; ++j) f(j);
  }
  template <class F>
  __device__ __forceinline__ void keys(int, int head, int i, int count, const F& f) const {
    const std::int64_t* row = seen_by(head, i / block);
    const int many = row ? width : blocks;
    for (int k = 0; k < many; ++k) {
      const int b = row ? static_cast<int>(row[k]) : k;
      if (b >= 0) in_block(b, count, f);
    }
  }
  template <class F>
  __device__ __forceinline__ void queries(int, int head, int j, int count, const F& f) const {
    for (int b = 0; b < blocks; ++b) {
      const std::int64_t* row = seen_by(head, b);
      bool sees = !row;
      for (int k = 0; k < width && !sees; ++k) sees = row[k] == j / block;
      if (sees) in_block(b, count, f);
    }
  }
  __device__ __forceinline__ float zero_keys(int head, int i) const {
    if (!has_zero_keys) return 0;
    const std::int64_t* row = seen_by(head, i / block);
    int sum = 0;
    for (int k = 0; k < (row ? width : blocks); ++k) {
      const int b = row ? static_cast<int>(row[k]) : k;
      const int first = b * block < tokens ? tokens : b * block;
      if (b >= 0 && first < (b + 1) * block) sum += (b + 1) * block - first;
    }
    return static_cast<float>(sum);
  }
  __device__ __forceinline__ float factor(int, int, int) const { return 1; }
  __device__ __forceinline__ float kept(int, int, int, int) const { return 1; }
};

BlockView view_of(const BlockAttentionProblem& p) {
  return {p.lengths,
          p.seen,
          static_cast<int>(p.tokens),
          static_cast<int>(p.block),
          static_cast<int>(p.blocks),
          static_cast<int>(p.width),
          p.zero_keys};
}

BlockTable table_of(const BlockAttentionProblem& p) {
  return {p.seen, p.block, p.blocks, p.width, p.zero_keys};
}

// The arguments as a call of dense attention, without the table of seen blocks.
AttentionForward dense_of(const BlockAttentionForward& args) {
  const BlockAttentionProblem& p = args.problem;
  AttentionForward dense{p.dtype, p.batch,  p.tokens, p.heads, p.head_dim,
                         p.scale, args.qkv, args.out, args.lse};
  dense.lengths = p.lengths;
  return dense;
}
AttentionBackward dense_of(const BlockAttentionBackward& args) {
  const BlockAttentionProblem& p = args.problem;
  AttentionBackward dense{p.dtype,  p.batch,  p.tokens, p.heads,   p.head_dim, p.scale,
                          args.qkv, args.out, args.lse, args.dout, args.dqkv};
  dense.lengths = p.lengths;
  return dense;
}

}  // namespace
}  // namespace attention

void run(CudaQueue& queue, const BlockAttentionForward& args) {
  const BlockAttentionProblem& p = args.problem;
  if (const AttentionForward dense = attention::dense_of(args);
      attention::has_tiles(dense, attention::table_of(p))) {
    return attention::tiles_forward(queue, dense, attention::table_of(p));
  }
  attention::for_rows("block_attention", p.dtype, p.head_dim, [&](auto zero, auto columns) {
    attention::rows_forward<columns>(queue, "block_attention_forward",
                                     attention::packed_arrays<decltype(zero)>(args, args.problem),
                                     attention::view_of(p), p.batch);
  });
}

void run(CudaQueue& queue, const BlockAttentionBackward& args) {
  const BlockAttentionProblem& p = args.problem;
  if (const AttentionBackward dense = attention::dense_of(args);
      attention::has_tiles(dense, attention::table_of(p)) &&
      attention::starts_aligned(dense.dout) && attention::starts_aligned(dense.dqkv)) {
    auto statistics = queue.scratch<attention::RowStatistics>(p.batch * p.heads * p.tokens);
    return attention::tiles_backward(queue, dense, attention::table_of(p), statistics.get());
  }
  attention::for_rows("block_attention", p.dtype, p.head_dim, [&](auto zero, auto columns) {
    using T = decltype(zero);
    attention::RowArrays<T> a = attention::packed_arrays<T>(args, args.problem);
    a.dout = static_cast<const T*>(args.dout);
    a.dq = static_cast<T*>(args.dqkv);
    a.dk = a.dq + p.heads * p.head_dim, a.dv = a.dk + p.heads * p.head_dim;
    attention::rows_backward<columns>(queue, "block_attention_backward", a, attention::view_of(p),
                                      p.batch);
  });
}

}  // namespace dtn
