// Attention on CUDA devices. For one head of one image:
//    s = scale q k^T [+ bias]    p = softmax(s)    out = p v    lse = log sum exp s
//    dv = p^T dout    dp = dout v^T    delta = rowsum(dout out)    ds = p (dp - delta)
//    dq = scale ds k    dk = scale ds^T q    da = sum ds (dx, dy, dx^2 + dy^2)
// Nothing of size T x T leaves the registers.
//
// bfloat16 with D <= 128 runs on tensor cores (attention_tensor_*.cu). Everything else runs in
// float32 on CUDA cores (attention_plain_*.cu), with D <= 256. Each kernel is built with and
// without the positional bias (attention_bias.cuh).
//
// Both paths have the same three kernels: forward; dq and delta by rows of queries; dk and dv by
// rows of keys. The last two compute the scores twice: 7 products of T x T x D instead of 5. A
// single backward kernel per head would compute them once. But it must send every ds through shared
// memory to the warps that sum dq, with two barriers per tile of queries. At M = 16 rows per warp,
// shared memory is the limit. The store of ds, its reload as left operand, and the right operands
// of dq cost as many shared-memory cycles as the two products saved. The single kernel would also
// hold dk and dv of all keys at once: 13 warps x 128 registers at T = 197. Then one block fills a
// multiprocessor, and nothing hides the start and end of the block. Two kernels do not
// need this exchange. They have no bound on T, several independent blocks per multiprocessor, and a
// fixed order of every sum.
//
// Hopper's tensor cores reach their peak rate only with products of whole warpgroups out of shared
// memory. That changes the comparison: left operands have 64 rows, and ds is used as it is stored,
// without a reload. A multiprocessor has room for one block that holds a whole head
// (attention_warpgroup_*.cu).
//
// Lengths, dropout and the tables of block attention have separate kernels. They run by tiles on
// tensor cores (attention_tiles_*.cu), or, in float32 and for odd sizes, with one warp per token
// (attention_masked.cu).
//
// Cost for B H = 2304 heads of T = 197, D = 48, on an H200 (4.3 TB/s copied; some 600 TFLOP/s by
// mma.sync; 16 exponentials per cycle and multiprocessor):
//                 arrays moved      bytes    time    operations         time    exponentials
//    forward      q k v -> out      174 MB   41 us   2 products, 17 G   29 us   25 us
//    dq           6 in all          262 MB   61 us   3 products, 26 G   43 us   25 us
//    dk and dv    6 in all          262 MB   61 us   4 products, 34 G   57 us   25 us
// Memory, tensor cores and exponentials are all within a factor of two, so they must overlap. The
// kernels use small blocks, several per multiprocessor, with copies in flight during the products.
#include "kernels/attention/attention_device.cuh"

namespace dtn {
namespace {

template <class Args>
bool is_empty(const Args& args) {
  return args.batch == 0 || args.tokens == 0 || args.heads == 0 || args.head_dim == 0;
}

template <class Args>
bool is_masked(const Args& args) {
  return args.lengths || args.dropout;
}

template <class Args>
bool is_for_tensor_cores(const Args& args) {
  return args.dtype == DType::kBFloat16 && args.head_dim <= attention::kMaxTensorDim;
}

// With fewer tokens, tiles of 64 queries leave too many rows unused.
template <class Args>
bool is_for_warpgroups(const CudaQueue& queue, const Args& args) {
  return attention::use_warpgroups && queue.has_warpgroup_products() &&
         args.dtype == DType::kBFloat16 && !args.pos_weight &&
         (args.head_dim == 48 || args.head_dim == 64) &&
         args.tokens >= attention::kMinWarpgroupTokens &&
         args.tokens <= attention::kMaxWarpgroupTokens && attention::starts_aligned(args.qkv) &&
         attention::starts_aligned(args.out);
}

bool backward_is_for_warpgroups(const CudaQueue& queue, const AttentionBackward& args) {
  // At D = 64 the registers cannot hold dk, dv and the scores.
  return is_for_warpgroups(queue, args) && args.head_dim == 48 &&
         attention::starts_aligned(args.dout) && attention::starts_aligned(args.dqkv) &&
         attention::warpgroup_backward_bytes(args.tokens) <= most_shared_bytes();
}

}  // namespace

void run(CudaQueue& queue, const AttentionForward& args) {
  if (is_empty(args)) return;
  if (is_masked(args)) return attention::masked_forward(queue, args, {});
  if (is_for_warpgroups(queue, args)) return attention::warpgroup_forward(queue, args);
  if (is_for_tensor_cores(args)) return attention::tensor_forward(queue, args);
  attention::plain_forward(queue, args);
}

void run(CudaQueue& queue, const AttentionBackward& args) {
  if (is_empty(args)) return;
  if (is_masked(args)) return attention::masked_backward(queue, args, {});
  if (backward_is_for_warpgroups(queue, args)) return attention::warpgroup_backward(queue, args);
  auto statistics = queue.scratch<attention::RowStatistics>(args.batch * args.heads * args.tokens);
  if (is_for_tensor_cores(args)) {
    return attention::tensor_backward(queue, args, statistics.get());
  }
  attention::plain_backward(queue, args, statistics.get());
}

}  // namespace dtn
