// Multi-head attention, forward and backward. One item is one head of one image.
//    s = scale q k^T [+ bias]    p = softmax(s)    out = p v    lse = log sum exp s
//    dv = p^T dout    dp = dout v^T    delta = rowsum(dout out)    ds = p (dp - delta)
//    dq = scale ds k    dk = scale ds^T q    da = sum ds (dx, dy, dx^2 + dy^2)
#include "kernels/attention/attention.h"

#include <algorithm>

#include "dtn/core/parallel.h"
#include "kernels/attention/attention_backward.h"
#include "kernels/attention/attention_forward.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

// Locates the rows of each head in qkv [B, T, 3, H, D] and in arrays [B, T, H, D] like the output.
template <class S>
struct Heads {
  std::int64_t tokens, heads, dim;
  const std::int64_t* lengths;

  template <class Args>
  explicit Heads(const Args& args)
      : tokens(args.tokens), heads(args.heads), dim(args.head_dim), lengths(args.lengths) {}

  std::int64_t width() const { return heads * dim; }
  // The number of valid tokens of an item.
  std::int64_t length(std::int64_t item) const { return lengths ? lengths[item / heads] : tokens; }
  AttentionSizes sizes(std::int64_t item, double scale) const {
    const std::int64_t count = length(item);
    return {count, count, dim, dim, scale};
  }
  // Rows of one item in qkv: `part` is 0 for q, 1 for k, 2 for v.
  template <class T>
  StridedRows<T> in_qkv(T* qkv, std::int64_t item, int part) const {
    T* image = qkv + item / heads * tokens * 3 * width();
    return {image + part * width() + item % heads * dim, 3 * width()};
  }
  template <class T>
  StridedRows<T> in_out(T* out, std::int64_t item) const {
    return {out + item / heads * tokens * width() + item % heads * dim, width()};
  }
  // Rows to prefetch: q, k, v and more [B, T, H, D] arrays of the item that this thread probably
  // computes next. The estimate is item + number of threads.
  template <class... Arrays>
  RowPrefetch<StridedRows<const S>> next(std::int64_t item, std::int64_t items, const S* qkv,
                                         const Arrays*... arrays) const {
    RowPrefetch<StridedRows<const S>> rows;
    item += omp_get_num_threads();
    if (item >= items) return rows;
    const std::int64_t bytes = dim * static_cast<std::int64_t>(sizeof(S));
    const std::int64_t count = length(item);
    for (int part = 0; part < 3; ++part) rows.add(in_qkv(qkv, item, part), count, bytes);
    (rows.add(in_out(arrays, item), count, bytes), ...);
    return rows;
  }
  // Zeroes the rows of an item's padding tokens.
  void clear_pads(const StridedRows<S>& rows, std::int64_t item) const {
    for (std::int64_t i = length(item); i < tokens; ++i) std::fill_n(rows(i), dim, S{});
  }
};

// The dropout mask of an item's weights.
template <class Mask, class Args>
Mask mask_of([[maybe_unused]] Scratch::Scope& scope, [[maybe_unused]] const Args& args,
             [[maybe_unused]] std::int64_t item, [[maybe_unused]] std::int64_t rows) {
  if constexpr (Mask::kActive) {
    return Mask(scope, args.dropout, item / args.heads, args.heads, item % args.heads, rows);
  } else {
    return {};
  }
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

// Grid positions of the tokens, or none if there is no bias.
template <class Shape, class Args>
auto places_of(Scratch::Scope& shared, const Args& args, std::int64_t (*max_rows)(std::int64_t)) {
  const Shape shape({args.tokens, args.tokens, args.head_dim, args.head_dim, args.scale}, max_rows);
  return TokenPlaces<typename Shape::A>::of(shared, shape, args);
}

template <class S, class Mask>
void forward(CpuQueue& queue, const AttentionForward& args) {
  using A = AccumulatorOf<S>;
  using Head = ForwardHead<S, StridedRows, HeadBias<A>, StridedRows<S>, Mask>;
  using Shape = typename Head::Shape;
  const Heads<S> heads(args);
  const S* qkv = static_cast<const S*>(args.qkv);
  S* out = static_cast<S*>(args.out);
  const std::int64_t items = args.batch * args.heads;
  Scratch::Scope shared(queue.scratch());
  const auto places = places_of<Shape>(shared, args, Head::max_rows);
  parallel_for(items, [&](std::int64_t item) {
    Scratch::Scope scope(queue.scratch());
    A* lse = static_cast<A*>(args.lse) + item * args.tokens;
    heads.clear_pads(heads.in_out(out, item), item);
    std::fill(lse + heads.length(item), lse + args.tokens, A{0});
    if (heads.length(item) == 0) return;
    const Shape shape(heads.sizes(item, args.scale), Head::max_rows);
    HeadBias<A> bias(scope, places, args.pos_weight, item % args.heads, shape.chunk, nullptr);
    Head(scope, shape, bias, heads.next(item, items, qkv),
         mask_of<Mask>(scope, args, item, Head::kMaxRows))
        .run({heads.in_qkv(qkv, item, 0), heads.in_qkv(qkv, item, 1), heads.in_qkv(qkv, item, 2),
              heads.in_out(out, item), lse});
  });
}

template <class S, class Mask>
void backward(CpuQueue& queue, const AttentionBackward& args) {
  using A = AccumulatorOf<S>;
  using Head = BackwardHead<S, StridedRows, HeadBias<A>, StridedRows<S>, Mask>;
  using Shape = typename Head::Shape;
  const Heads<S> heads(args);
  const S* qkv = static_cast<const S*>(args.qkv);
  const S* out = static_cast<const S*>(args.out);
  const S* dout = static_cast<const S*>(args.dout);
  S* dqkv = static_cast<S*>(args.dqkv);
  const std::int64_t items = args.batch * args.heads;
  Scratch::Scope shared(queue.scratch());
  const auto places = places_of<Shape>(shared, args, Head::max_rows);
  A* dpos_weight = places ? shared.take<A>(3 * items) : nullptr;  // [B, H, 3]
  parallel_for(items, [&](std::int64_t item) {
    Scratch::Scope scope(queue.scratch());
    for (int part = 0; part < 3; ++part) heads.clear_pads(heads.in_qkv(dqkv, item, part), item);
    if (heads.length(item) == 0) return;
    A sums[3] = {};
    const Shape shape(heads.sizes(item, args.scale), Head::max_rows);
    HeadBias<A> bias(scope, places, args.pos_weight, item % args.heads, shape.chunk, sums);
    Head(scope, shape, bias, heads.next(item, items, qkv, out, dout),
         mask_of<Mask>(scope, args, item, Head::kMaxRows))
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

// Calls f<storage type, mask> with the types that the arguments select.
template <class Args, class F>
void for_storage(const Args& args, const F& f) {
  for_dtype("attention", args.dtype, [&](auto zero) {
    using S = decltype(zero);
    if (args.dropout) return f.template operator()<S, DropoutMask<AccumulatorOf<S>>>();
    f.template operator()<S, NoDropout>();
  });
}

}  // namespace

void run(CpuQueue& queue, const AttentionForward& args) {
  if (args.tokens == 0 || args.head_dim == 0) return;
  for_storage(args, [&]<class S, class Mask>() { forward<S, Mask>(queue, args); });
}

void run(CpuQueue& queue, const AttentionBackward& args) {
  if (args.tokens == 0 || args.head_dim == 0) return;
  for_storage(args, [&]<class S, class Mask>() { backward<S, Mask>(queue, args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(AttentionForward)
DTN_DISPATCH(AttentionBackward)
