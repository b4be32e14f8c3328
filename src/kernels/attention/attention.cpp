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

// The heads of qkv and of arrays like the output.
template <class S>
struct Heads {
  std::int64_t tokens, heads, dim;

  template <class Args>
  explicit Heads(const Args& args) : tokens(args.tokens), heads(args.heads), dim(args.head_dim) {}

  std::int64_t width() const { return heads * dim; }
  AttentionSizes sizes(double scale) const { return {tokens, tokens, dim, dim, scale}; }
  // Of an item, a head of an image: `part` 0 for q, 1 for k, 2 for v.
  template <class T>
  StridedRows<T> in_qkv(T* qkv, std::int64_t item, int part) const {
    T* image = qkv + item / heads * tokens * 3 * width();
    return {image + part * width() + item % heads * dim, 3 * width()};
  }
  template <class T>
  StridedRows<T> in_out(T* out, std::int64_t item) const {
    return {out + item / heads * tokens * width() + item % heads * dim, width()};
  }
  // The rows of q, k and v, and of more [B, T, H, D] arrays, of the head that comes when each
  // thread has taken one more.
  template <class... Arrays>
  RowPrefetch<StridedRows<const S>> next(std::int64_t item, std::int64_t items, const S* qkv,
                                         const Arrays*... arrays) const {
    RowPrefetch<StridedRows<const S>> rows;
    item += omp_get_num_threads();
    if (item >= items) return rows;
    const std::int64_t bytes = dim * static_cast<std::int64_t>(sizeof(S));
    for (int part = 0; part < 3; ++part) rows.add(in_qkv(qkv, item, part), tokens, bytes);
    (rows.add(in_out(arrays, item), tokens, bytes), ...);
    return rows;
  }
};

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
  using A = AccumulatorOf<S>;
  using Head = ForwardHead<S, StridedRows, HeadBias<A>>;
  const Heads<S> heads(args);
  const typename Head::Shape shape(heads.sizes(args.scale), Head::max_rows);
  const S* qkv = static_cast<const S*>(args.qkv);
  S* out = static_cast<S*>(args.out);
  const std::int64_t items = args.batch * args.heads;
  Scratch::Scope shared(queue.scratch());
  const auto places = TokenPlaces<A>::of(shared, shape, args);
  parallel_for(items, [&](std::int64_t item) {
    Scratch::Scope scope(queue.scratch());
    HeadBias<A> bias(scope, places, args.pos_weight, item % args.heads, shape.chunk, nullptr);
    Head(scope, shape, bias, heads.next(item, items, qkv))
        .run({heads.in_qkv(qkv, item, 0), heads.in_qkv(qkv, item, 1), heads.in_qkv(qkv, item, 2),
              heads.in_out(out, item), static_cast<A*>(args.lse) + item * args.tokens});
  });
}

template <class S>
void backward(CpuQueue& queue, const AttentionBackward& args) {
  using A = AccumulatorOf<S>;
  using Head = BackwardHead<S, StridedRows, HeadBias<A>>;
  const Heads<S> heads(args);
  const typename Head::Shape shape(heads.sizes(args.scale), Head::max_rows);
  const S* qkv = static_cast<const S*>(args.qkv);
  const S* out = static_cast<const S*>(args.out);
  const S* dout = static_cast<const S*>(args.dout);
  S* dqkv = static_cast<S*>(args.dqkv);
  const std::int64_t items = args.batch * args.heads;
  Scratch::Scope shared(queue.scratch());
  const auto places = TokenPlaces<A>::of(shared, shape, args);
  A* dpos_weight = places ? shared.take<A>(3 * items) : nullptr;  // [B, H, 3]
  parallel_for(items, [&](std::int64_t item) {
    Scratch::Scope scope(queue.scratch());
    A sums[3] = {};
    HeadBias<A> bias(scope, places, args.pos_weight, item % args.heads, shape.chunk, sums);
    Head(scope, shape, bias, heads.next(item, items, qkv, out, dout))
        .run({heads.in_qkv(qkv, item, 0), heads.in_qkv(qkv, item, 1), heads.in_qkv(qkv, item, 2),
              heads.in_out(out, item), heads.in_out(dout, item),
              static_cast<const A*>(args.lse) + item * args.tokens, heads.in_qkv(dqkv, item, 0),
              heads.in_qkv(dqkv, item, 1), heads.in_qkv(dqkv, item, 2)});
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
