// Multi-head attention, forward and backward. One item is one head of one image.
//   s = scale q k^T [+ bias]    p = softmax(s)    out = p v    lse = log sum exp s
//   dv = p^T dout    dp = dout v^T    delta = rowsum(dout out)    ds = p (dp - delta)
//   dq = scale ds k    dk = scale ds^T q    da = sum ds (dx, dy, dx^2 + dy^2)
#include "kernels/attention/attention.h"

#include "dtn/core/parallel.h"
#include "kernels/attention/attention_backward.h"
#include "kernels/attention/attention_forward.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

// The rows of q, k and v, and of more [B, T, H, D] arrays, of the head that comes when each thread
// has taken one more.
template <class Shape, class S, class... Arrays>
RowPrefetch next_head(const Shape& shape, std::int64_t item, std::int64_t items, const S* qkv,
                      const Arrays*... arrays) {
  item += omp_get_num_threads();
  if (item >= items) return {};
  std::int64_t image = item / shape.heads, head = item % shape.heads;
  RowPrefetch rows(shape.tokens, shape.dim * static_cast<std::int64_t>(sizeof(S)));
  const std::int64_t bytes = sizeof(S);
  const S* q = qkv + shape.qkv_offset(image, head);
  for (int part = 0; part < 3; ++part) rows.add(q + part * shape.out_ld, shape.qkv_ld * bytes);
  (rows.add(arrays + shape.out_offset(image, head), shape.out_ld * bytes), ...);
  return rows;
}

// total [n] += the sum of images [batch, n].
template <class A>
void add_images(const A* images, std::int64_t batch, std::int64_t n, A* total) {
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::int64_t b = 0; b < batch; ++b) sum += static_cast<double>(images[b * n + i]);
    total[i] += static_cast<A>(sum);
  }
}

template <class S>
void forward(CpuQueue& queue, const AttentionForward& args) {
  using Head = ForwardHead<S>;
  using A = typename Head::A;
  const typename Head::Shape shape(args, Head::kMaxRows);
  const S* qkv = static_cast<const S*>(args.qkv);
  S* out = static_cast<S*>(args.out);
  const std::int64_t items = args.batch * args.heads;
  Scratch::Scope shared(queue.scratch());
  const auto places = TokenPlaces<A>::of(shared, shape, args);
  parallel_for(items, [&](std::int64_t item) {
    std::int64_t image = item / args.heads, head = item % args.heads;
    Scratch::Scope scope(queue.scratch());
    const S* q = qkv + shape.qkv_offset(image, head);
    HeadBias<A> bias(scope, places, args.pos_weight, head, shape.keys, false);
    Head(scope, shape, bias, next_head(shape, item, items, qkv))
        .run(q, q + shape.out_ld, q + 2 * shape.out_ld, out + shape.out_offset(image, head),
             static_cast<A*>(args.lse) + item * args.tokens);
  });
}

template <class S>
void backward(CpuQueue& queue, const AttentionBackward& args) {
  using Head = BackwardHead<S>;
  using A = typename Head::A;
  const typename Head::Shape shape(args, Head::kMaxRows);
  const S* qkv = static_cast<const S*>(args.qkv);
  const S* out = static_cast<const S*>(args.out);
  const S* dout = static_cast<const S*>(args.dout);
  const std::int64_t items = args.batch * args.heads;
  Scratch::Scope shared(queue.scratch());
  const auto places = TokenPlaces<A>::of(shared, shape, args);
  A* dpos_weight = places ? shared.take<A>(3 * items) : nullptr;  // [B, H, 3]
  parallel_for(items, [&](std::int64_t item) {
    std::int64_t image = item / args.heads, head = item % args.heads;
    Scratch::Scope scope(queue.scratch());
    std::int64_t at_qkv = shape.qkv_offset(image, head), at_out = shape.out_offset(image, head);
    HeadBias<A> bias(scope, places, args.pos_weight, head, shape.keys, true);
    A sums[3] = {};
    Head(scope, shape, bias, next_head(shape, item, items, qkv, out, dout))
        .run(qkv + at_qkv, out + at_out, static_cast<const A*>(args.lse) + item * args.tokens,
             dout + at_out, static_cast<S*>(args.dqkv) + at_qkv, sums);
    for (int k = 0; k < 3 && dpos_weight; ++k) dpos_weight[3 * item + k] = sums[k];
  });
  if (places && args.dpos_weight) {
    add_images(dpos_weight, args.batch, 3 * args.heads, static_cast<A*>(args.dpos_weight));
  }
}

}  // namespace

void run(CpuQueue& queue, const AttentionForward& args) {
  if (args.tokens == 0 || args.head_dim == 0) return;
  if (args.dtype == DType::kBFloat16) return forward<bfloat16>(queue, args);
  if (args.dtype == DType::kFloat64) return forward<double>(queue, args);
  forward<float>(queue, args);
}

void run(CpuQueue& queue, const AttentionBackward& args) {
  if (args.tokens == 0 || args.head_dim == 0) return;
  if (args.dtype == DType::kBFloat16) return backward<bfloat16>(queue, args);
  if (args.dtype == DType::kFloat64) return backward<double>(queue, args);
  backward<float>(queue, args);
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(AttentionForward)
DTN_DISPATCH(AttentionBackward)
