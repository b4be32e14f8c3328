// Block-sparse attention on CUDA devices: attention with a table of seen blocks
// (attention_masked.cu).
#include "kernels/attention/attention_device.cuh"
#include "kernels/sparse_attention/block_attention.h"

namespace dtn {
namespace {

attention::BlockTable table_of(const BlockAttentionProblem& p) {
  return {p.seen, static_cast<int>(p.block), static_cast<int>(p.blocks), static_cast<int>(p.width),
          p.zero_keys};
}

}  // namespace

void run(CudaQueue& queue, const BlockAttentionForward& args) {
  const BlockAttentionProblem& p = args.problem;
  AttentionForward dense{p.dtype, p.batch,  p.tokens, p.heads, p.head_dim,
                         p.scale, args.qkv, args.out, args.lse};
  dense.lengths = p.lengths;
  attention::masked_forward(queue, dense, table_of(p));
}

void run(CudaQueue& queue, const BlockAttentionBackward& args) {
  const BlockAttentionProblem& p = args.problem;
  AttentionBackward dense{p.dtype,  p.batch,  p.tokens, p.heads,   p.head_dim, p.scale,
                          args.qkv, args.out, args.lse, args.dout, args.dqkv};
  dense.lengths = p.lengths;
  attention::masked_backward(queue, dense, table_of(p));
}

}  // namespace dtn
