// Attention on CUDA devices. With one head of one image
//   s = scale q k^T [+ bias]    p = softmax(s)    out = p v    lse = log sum exp s
//   dv = p^T dout    dp = dout v^T    delta = rowsum(dout out)    ds = p (dp - delta)
//   dq = scale ds k    dk = scale ds^T q    da = sum ds (dx, dy, dx^2 + dy^2)
// and nothing of size T x T leaves the registers.
//
// bfloat16 with D <= 128 runs on tensor cores (attention_tensor_*.cu), everything else in float32
// on CUDA cores (attention_plain_*.cu), which take D <= 256; each kernel is built with and without
// the positional bias (attention_bias.cuh). Both paths have the same three kernels: forward; dq and
// delta by rows of queries; dk and dv by rows of keys. The last two compute the scores twice, 7
// products of T x T x D instead of 5. A single kernel per head would compute them once, but must
// then send every ds through shared memory to the warps that sum dq, with two barriers per tile of
// queries: at M = 16 rows per warp shared memory is what limits it, and the store, the reload as
// left operand and the right operands of dq come to as many of its cycles as the two products
// saved. It would also hold dk and dv of all keys at once, 13 warps x 128 registers at T = 197, one
// block per multiprocessor with nothing to hide its beginning and end. Two kernels have no such
// exchange, no bound on T, several independent blocks per multiprocessor, and a fixed order of
// every sum.
//
// Hopper's tensor cores reach their rate by products of whole warpgroups out of shared memory. That
// changes the sum above: left operands are 64 rows, ds as it is stored needs no reload, and a
// multiprocessor has room for one block that holds a head (attention_warpgroup_*.cu).
//
// Lengths and dropout, and the tables of block attention, have kernels of their own: by tiles on
// tensor cores (attention_tiles_*.cu), or in float32 and for odd sizes a warp for each token
// (attention_padded.cu).
//
// What it costs, for B H = 2304 heads of T = 197, D = 48, on an H200 (4.3 TB/s copied; some 600
// TFLOP/s by mma.sync; 16 exponentials per cycle and multiprocessor):
//                 arrays moved      bytes    time    operations         time    exponentials
//   forward       q k v -> out      174 MB   41 us   2 products, 17 G   29 us   25 us
//   dq            6 in all          262 MB   61 us   3 products, 26 G   43 us   25 us
//   dk and dv     6 in all          262 MB   61 us   4 products, 34 G   57 us   25 us
// so memory, tensor cores and exponentials are all within a factor of two, and what counts is that
// they overlap: small blocks, several to a multiprocessor, copies in flight during the products.
#include "kernels/attention/attention_device.cuh"

namespace dtn {
namespace {

template <class Args>
bool is_empty(const Args& args) {
  return args.batch == 0 || args.tokens == 0 || args.heads == 0 || args.head_dim == 0;
}

template <class Args>
bool is_padded(const Args& args) {
  return args.lengths || args.dropout;
}

template <class Args>
bool is_for_tensor_cores(const Args& args) {
  return args.dtype == DType::kBFloat16 && args.head_dim <= attention::kMaxTensorDim;
}

// With fewer tokens, 64 queries at a time leave too much undone.
template <class Args>
bool is_for_warpgroups(const CudaQueue& queue, const Args& args) {
  return attention::use_warpgroups && queue.has_warpgroup_products() &&
         args.dtype == DType::kBFloat16 && !args.pos_weight &&
         (args.head_dim == 48 || args.head_dim == 64) &&
         args.tokens >= attention::kFewestWarpgroupTokens &&
         args.tokens <= attention::kMaxWarpgroupTokens && attention::starts_aligned(args.qkv) &&
         attention::starts_aligned(args.out);
}

bool backward_is_for_warpgroups(const CudaQueue& queue, const AttentionBackward& args) {
  // At D = 64 registers do not hold dk, dv and the scores.
  return is_for_warpgroups(queue, args) && args.head_dim == 48 &&
         attention::starts_aligned(args.dout) && attention::starts_aligned(args.dqkv) &&
         attention::warpgroup_backward_bytes(args.tokens) <= most_shared_bytes();
}

}  // namespace

void run(CudaQueue& queue, const AttentionForward& args) {
  if (is_empty(args)) return;
  if (is_padded(args)) {
    return attention::has_tiles(args, {}) ? attention::tiles_forward(queue, args, {})
                                          : attention::padded_forward(queue, args);
  }
  if (is_for_warpgroups(queue, args)) return attention::warpgroup_forward(queue, args);
  if (is_for_tensor_cores(args)) return attention::tensor_forward(queue, args);
  attention::plain_forward(queue, args);
}

void run(CudaQueue& queue, const AttentionBackward& args) {
  if (is_empty(args)) return;
  const bool by_tiles = is_padded(args) && attention::has_tiles(args, {}) &&
                        attention::starts_aligned(args.dout) &&
                        attention::starts_aligned(args.dqkv);
  if (is_padded(args) && !by_tiles) return attention::padded_backward(queue, args);
  if (!by_tiles && backward_is_for_warpgroups(queue, args)) {
    return attention::warpgroup_backward(queue, args);
  }
  auto statistics = queue.scratch<attention::RowStatistics>(args.batch * args.heads * args.tokens);
  if (by_tiles) return attention::tiles_backward(queue, args, {}, statistics.get());
  if (is_for_tensor_cores(args)) {
    return attention::tensor_backward(queue, args, statistics.get());
  }
  attention::plain_backward(queue, args, statistics.get());
}

}  // namespace dtn
