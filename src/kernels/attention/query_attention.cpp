// Attention of a few queries, forward and backward. One item is one head of one image.
//    s = scale q k^T    p = softmax(s)    out = p v    lse = log sum exp s
//    dv = p^T dout    dp = dout v^T    delta = rowsum(dout out)    ds = p (dp - delta)
//    dq = scale ds k    dk = scale ds^T q
// Keys are processed in groups of one vector of scores. The rows of K and V of a group stay in the
// cache for all work on the group.
#include "kernels/attention/query_attention.h"

#include <cmath>
#include <limits>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

// The sizes of a head, and its offsets in the arrays.
struct HeadSizes {
  std::int64_t queries, tokens, dim, heads;
  std::int64_t padded_dim, padded_tokens;  // rounded up to whole vectors of any type
  std::int64_t q_ld, kv_ld;                // from row to row; V lies q_ld after K

  template <class Arguments>
  explicit HeadSizes(const Arguments& args)
      : queries(args.queries),
        tokens(args.tokens),
        dim(args.head_dim),
        heads(args.heads),
        padded_dim((dim + 15) / 16 * 16),
        padded_tokens((tokens + 15) / 16 * 16),
        q_ld(heads * dim),
        kv_ld(2 * heads * dim) {}

  std::int64_t in_q(std::int64_t item) const {
    return item / heads * queries * q_ld + item % heads * dim;
  }
  std::int64_t in_kv(std::int64_t item) const {
    return item / heads * tokens * kv_ld + item % heads * dim;
  }
};

// Calls f(first, count) for the groups of keys. A group has one key per lane of a vector; the last
// one may have fewer.
template <class A, class F>
void for_each_group(std::int64_t tokens, F&& f) {
  for (std::int64_t t = 0; t < tokens; t += kLanes<A>) {
    f(t, tokens - t < kLanes<A> ? tokens - t : std::int64_t{kLanes<A>});
  }
}

// Prefetches the rows of K and V of one group of keys. They lie too far apart for the hardware
// prefetcher. The inlining is forced: GCC considers a function that only prefetches to have no
// effect, and drops its calls.
template <class S>
[[gnu::always_inline]] inline void prefetch_group(const HeadSizes& z, const S* k,
                                                  std::int64_t first) {
  constexpr std::int64_t kLine = 64 / sizeof(S);
  const std::int64_t lanes = kLanes<AccumulatorOf<S>>;
  for (std::int64_t t = first; t < first + lanes && t < z.tokens; ++t) {
    for (const S* row : {k + t * z.kv_ld, k + t * z.kv_ld + z.q_ld}) {
      for (std::int64_t d = 0; d < z.dim; d += kLine) __builtin_prefetch(row + d);
    }
  }
}

// Copies [Q, D] of S, with rows q_ld apart, to [Q, padded_dim] of A; zeros past D.
template <class S, class A>
A* upcast_rows(const HeadSizes& z, const S* rows, Scratch::Scope& scope) {
  A* wide = scope.take<A>(z.queries * z.padded_dim);
  for (std::int64_t i = 0; i < z.queries; ++i) {
    A* to = wide + i * z.padded_dim;
    for (std::int64_t d = z.dim; d < z.padded_dim; ++d) to[d] = 0;
    for_each_vector<A>(z.dim, [&](std::int64_t d, auto n) {
      store_n(to + d, load_n(rows + i * z.q_ld + d, n), n);
    });
  }
  return wide;
}

// Lane i is row . row i of `count` rows kv_ld apart; 0 from `count` on.
template <class S, class A>
Vec<A> products_with_rows(const HeadSizes& z, const A* row, const S* rows, std::int64_t count) {
  A sums[kLanes<A> * kLanes<A>];
  for (std::int64_t i = 0; i < kLanes<A>; ++i) {
    Vec<A> sum{};
    for_each_vector<A>(i < count ? z.dim : 0, [&](std::int64_t d, auto n) {
      sum += load(row + d) * load_n(rows + i * z.kv_ld + d, n);
    });
    store(sums + i * kLanes<A>, sum);
  }
  return reduce_add_each<A>(sums);
}

// to += factor row, [padded_dim] += [D]
template <class S, class A>
void add_row(const HeadSizes& z, A factor, const S* row, A* to) {
  for_each_vector<A>(z.dim, [&](std::int64_t d, auto n) {
    store(to + d, load(to + d) + factor * load_n(row + d, n));
  });
}

// Computes p = e^(s - largest), with zeros from T on. Returns the sum and writes lse.
template <class A>
A exponentials(const HeadSizes& z, A* p, A* lse) {
  Vec<A> largest = load(p);
  for_each_group<A>(z.tokens,
                    [&](std::int64_t t, std::int64_t) { largest = max(largest, load(p + t)); });
  const A top = reduce_max(largest);
  Vec<A> sum{};
  for_each_group<A>(z.tokens, [&](std::int64_t t, std::int64_t) {
    const Vec<A> e = exp(load(p + t) - top);
    store(p + t, e);
    sum += e;
  });
  const A total = reduce_add(sum);
  *lse = top + std::log(total);
  return total;
}

template <class S>
void forward_head(const HeadSizes& z, double scale, const S* q, const S* k, S* out,
                  AccumulatorOf<S>* lse, Scratch::Scope& scope) {
  using A = AccumulatorOf<S>;
  const A* queries = upcast_rows<S, A>(z, q, scope);
  A* scores = scope.take<A>(z.queries * z.padded_tokens);
  prefetch_group(z, k, 0);
  for_each_group<A>(z.tokens, [&](std::int64_t t, std::int64_t count) {
    prefetch_group(z, k, t + kLanes<A>);
    for (std::int64_t i = 0; i < z.queries; ++i) {
      A* s = scores + i * z.padded_tokens + t;
      store(s, products_with_rows(z, queries + i * z.padded_dim, k + t * z.kv_ld, count) *
                   static_cast<A>(scale));
      for (std::int64_t j = count; j < kLanes<A>; ++j) s[j] = -std::numeric_limits<A>::infinity();
    }
  });
  const S* v = k + z.q_ld;
  for (std::int64_t i = 0; i < z.queries; ++i) {
    A* p = scores + i * z.padded_tokens;
    const A inverse = 1 / exponentials(z, p, lse + i);
    for_each_vector<A>(z.dim, [&](std::int64_t d, auto n) {
      Vec<A> sum{};
      for (std::int64_t t = 0; t < z.tokens; ++t) sum += p[t] * load_n(v + t * z.kv_ld + d, n);
      store_n(out + i * z.q_ld + d, sum * inverse, n);
    });
  }
}

// Buffers of the backward pass of one head.
template <class A>
struct BackwardHead {
  const A *q, *dout;  // [Q, padded_dim]
  A* dq;              // [Q, padded_dim], without the scale
  A *p, *ds;          // [Q, kLanes], of the current group
  A *delta, *shift;   // [Q]: shift is -lse
};

// Writes the rows of dk and dv of one key, the j-th of its group.
template <class S, class A>
void store_key_gradients(const HeadSizes& z, const BackwardHead<A>& head, A scale, std::int64_t j,
                         S* dk) {
  for_each_vector<A>(z.dim, [&](std::int64_t d, auto n) {
    Vec<A> of_key{}, of_value{};
    for (std::int64_t i = 0; i < z.queries; ++i) {
      of_key += head.ds[i * kLanes<A> + j] * load(head.q + i * z.padded_dim + d);
      of_value += head.p[i * kLanes<A> + j] * load(head.dout + i * z.padded_dim + d);
    }
    store_n(dk + d, of_key * scale, n);
    store_n(dk + z.q_ld + d, of_value, n);
  });
}

template <class S>
void backward_head(const HeadSizes& z, double scale, const S* q, const S* k, const S* out,
                   const AccumulatorOf<S>* lse, const S* dout, S* dq, S* dk,
                   Scratch::Scope& scope) {
  using A = AccumulatorOf<S>;
  const A factor = static_cast<A>(scale);
  const BackwardHead<A> head{upcast_rows<S, A>(z, q, scope),
                             upcast_rows<S, A>(z, dout, scope),
                             scope.take<A>(z.queries * z.padded_dim),
                             scope.take<A>(z.queries * kLanes<A>),
                             scope.take<A>(z.queries * kLanes<A>),
                             scope.take<A>(z.queries),
                             scope.take<A>(z.queries)};
  for (std::int64_t i = 0; i < z.queries; ++i) {
    Vec<A> delta{};
    for_each_vector<A>(z.dim, [&](std::int64_t d, auto n) {
      delta += load(head.dout + i * z.padded_dim + d) * load_n(out + i * z.q_ld + d, n);
      store(head.dq + i * z.padded_dim + d, Vec<A>{});
    });
    head.delta[i] = reduce_add(delta);
    head.shift[i] = -lse[i];
  }
  prefetch_group(z, k, 0);
  for_each_group<A>(z.tokens, [&](std::int64_t t, std::int64_t count) {
    prefetch_group(z, k, t + kLanes<A>);
    const S* keys = k + t * z.kv_ld;
    for (std::int64_t i = 0; i < z.queries; ++i) {
      const std::int64_t row = i * z.padded_dim;
      const Vec<A> s = products_with_rows(z, head.q + row, keys, count);
      const Vec<A> dp = products_with_rows(z, head.dout + row, keys + z.q_ld, count);
      const Vec<A> p = exp(s * factor + head.shift[i]);
      store(head.p + i * kLanes<A>, p);
      store(head.ds + i * kLanes<A>, p * (dp - head.delta[i]));
    }
    for (std::int64_t j = 0; j < count; ++j) {
      for (std::int64_t i = 0; i < z.queries; ++i) {
        add_row(z, head.ds[i * kLanes<A> + j], keys + j * z.kv_ld, head.dq + i * z.padded_dim);
      }
      store_key_gradients(z, head, factor, j, dk + (t + j) * z.kv_ld);
    }
  });
  for (std::int64_t i = 0; i < z.queries; ++i) {
    for_each_vector<A>(z.dim, [&](std::int64_t d, auto n) {
      store_n(dq + i * z.q_ld + d, load(head.dq + i * z.padded_dim + d) * factor, n);
    });
  }
}

}  // namespace

void run(CpuQueue& queue, const QueryAttentionForward& args) {
  if (args.tokens == 0 || args.head_dim == 0) return;
  const HeadSizes z(args);
  for_dtype("QueryAttentionForward", args.dtype, [&](auto zero) {
    using S = decltype(zero);
    parallel_for(args.batch * args.heads, [&](std::int64_t item) {
      Scratch::Scope scope(queue.scratch());
      const std::int64_t in_q = z.in_q(item);
      forward_head(z, args.scale, static_cast<const S*>(args.q) + in_q,
                   static_cast<const S*>(args.kv) + z.in_kv(item), static_cast<S*>(args.out) + in_q,
                   static_cast<AccumulatorOf<S>*>(args.lse) + item * z.queries, scope);
    });
  });
}

void run(CpuQueue& queue, const QueryAttentionBackward& args) {
  if (args.tokens == 0 || args.head_dim == 0) return;
  const HeadSizes z(args);
  for_dtype("QueryAttentionBackward", args.dtype, [&](auto zero) {
    using S = decltype(zero);
    parallel_for(args.batch * args.heads, [&](std::int64_t item) {
      Scratch::Scope scope(queue.scratch());
      const std::int64_t in_q = z.in_q(item), in_kv = z.in_kv(item);
      backward_head(z, args.scale, static_cast<const S*>(args.q) + in_q,
                    static_cast<const S*>(args.kv) + in_kv, static_cast<const S*>(args.out) + in_q,
                    static_cast<const AccumulatorOf<S>*>(args.lse) + item * z.queries,
                    static_cast<const S*>(args.dout) + in_q, static_cast<S*>(args.dq) + in_q,
                    static_cast<S*>(args.dkv) + in_kv, scope);
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(QueryAttentionForward)
DTN_DISPATCH(QueryAttentionBackward)
