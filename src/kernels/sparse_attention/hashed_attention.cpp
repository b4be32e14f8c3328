// Hashed attention. The blocks of a head are its chunks, round by round.
#include "kernels/sparse_attention/hashed_attention.h"

#include <cmath>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/sparse_attention/attention_blocks.h"
#include "kernels/sparse_attention/hash_order.h"
#include "kernels/sparse_attention/self_mask.h"

namespace dtn::DTN_ISA {
namespace {

struct HeadRows : SampleHead<HashedAttentionProblem> {
  // Number of positions that are sorted.
  std::int64_t count() const { return p.lra ? p.positions : length(); }
  // Rows of an output. In the variant lra the rows of a head are adjacent, see the header.
  template <class T>
  PositionRows<T> in_out(T* out, T* spare) const {
    if (!p.lra) return in(out, spare);
    T* sample_rows = out + sample() * p.tokens * p.heads * p.head_dim;
    const std::int64_t before = head() * p.positions;
    return {sample_rows + before * p.head_dim, p.head_dim, p.tokens * p.heads - before, spare};
  }
};

template <class A>
A inverse_norm(A squares) {
  return squares > 0 ? 1 / std::sqrt(squares) : squares;  // NaN stays NaN
}

// k / |k| of the valid positions.
template <class S>
PositionRows<const S> normalized(Scratch::Scope& scope, const HeadRows& rows,
                                 const PositionRows<const S>& k) {
  using A = AccumulatorOf<S>;
  const std::int64_t dim = rows.p.head_dim, count = rows.count();
  S* keys = scope.take<S>(count * dim);
  for (std::int64_t i = 0; i < count; ++i) {
    const S* row = k.first + i * k.ld;
    const A factor = inverse_norm(row_product<A>(row, row, dim));
    for_each_vector<A>(dim, [&](std::int64_t d, auto n) {
      store_n(keys + i * dim + d, load_n(row + d, n) * factor, n);
    });
  }
  return {keys, dim, count, nullptr};
}

template <class S>
HeadInputs<S> inputs_of(Scratch::Scope& scope, const HeadRows& rows, const void* qk, const void* v,
                        const S* zeros) {
  const auto q = rows.in(static_cast<const S*>(qk), zeros);
  const double root = std::sqrt(static_cast<double>(rows.p.head_dim));
  return {q, rows.p.lra ? q : normalized(scope, rows, q), rows.in(static_cast<const S*>(v), zeros),
          rows.p.head_dim, rows.p.lra ? root : 1};
}

// Generates the chunks of a round of a head.
template <class A>
class Chunks {
 public:
  // order [R, N]; its first `count` positions in each round are valid.
  Chunks(Scratch::Scope& scope, const HashedAttentionProblem& p, const std::int64_t* order,
         std::int64_t count)
      : p_(p),
        order_(order),
        count_(count),
        keys_(scope.take<std::int64_t>(2 * p.chunk())),
        place_(scope.take<std::int64_t>(p.positions)),
        mask_(scope, !p.lra, p.chunk(), 2 * p.chunk()) {
    std::fill_n(place_, p.positions, SelfMask<A>::kNowhere);
  }

  // Calls f(block, bias) for the chunks of a round whose queries see more than themselves.
  template <class F>
  void for_each(std::int64_t round, const F& f) {
    const std::int64_t m = p_.chunk();
    const std::int64_t* own_round = order_ + round * p_.positions;
    for (std::int64_t first = 0; first < count_; first += m) {
      const std::int64_t own = std::min(m, count_ - first);
      const std::int64_t before =
          first > 0 ? copy_keys(round, first - m)
                    : copy_keys(round == 0 ? p_.hashes - 1 : round - 1, p_.positions - m);
      std::copy_n(own_round + first, own, keys_ + before);
      const AttentionBlock block{own_round + first, own, keys_, before + own};
      if (mask_) {
        if (sees_itself_alone(block)) continue;
        set_mask(block, before);
      }
      f(block, mask_);
    }
  }

 private:
  // Copies the keys of the chunk that begins at `first` in a round; returns their number.
  std::int64_t copy_keys(std::int64_t round, std::int64_t first) {
    const std::int64_t count = std::clamp<std::int64_t>(count_ - first, 0, p_.chunk());
    if (count > 0) std::copy_n(order_ + round * p_.positions + first, count, keys_);
    return count;
  }
  static bool sees_itself_alone(const AttentionBlock& block) {
    return std::all_of(block.keys, block.keys + block.key_count,
                       [&](std::int64_t key) { return key == block.queries[0]; });
  }
  // The chunk before may belong to another round and then contain queries of this chunk again.
  void set_mask(const AttentionBlock& block, std::int64_t before) {
    for (std::int64_t i = 0; i < before; ++i) place_[keys_[i]] = i;
    for (std::int64_t i = 0; i < block.query_count; ++i) {
      mask_.set(i, before + i, place_[block.queries[i]]);
    }
    mask_.end_queries(block.query_count);
    for (std::int64_t i = 0; i < before; ++i) place_[keys_[i]] = SelfMask<A>::kNowhere;
  }

  const HashedAttentionProblem& p_;
  const std::int64_t* order_;
  std::int64_t count_;
  std::int64_t* keys_;   // [2 chunk]
  std::int64_t* place_;  // [N]: index of a position among the keys before, or kNowhere
  SelfMask<A> mask_;
};

// Combines another round with the outputs [count, D] and their log-sum-exp.
template <class A>
void join_round(std::int64_t count, std::int64_t dim, const A* round_out, const A* round_lse,
                A* out, A* lse) {
  const A nothing = -static_cast<A>(__builtin_inf());
  for (std::int64_t i = 0; i < count; ++i) {
    if (round_lse[i] == nothing) continue;
    const A top = std::max(lse[i], round_lse[i]);
    const A sum = std::exp(lse[i] - top) + std::exp(round_lse[i] - top);
    const A joined = top + std::log(sum);
    const A before = std::exp(lse[i] - joined), added = std::exp(round_lse[i] - joined);
    lse[i] = joined;
    for_each_vector<A>(dim, [&](std::int64_t d, auto n) {
      A* to = out + i * dim + d;
      const Vec<A> kept = before > 0 ? load_n(to, n) * before : Vec<A>{};
      store_n(to, kept + load_n(round_out + i * dim + d, n) * added, n);
    });
  }
}

template <class S>
void forward_head(Scratch& scratch, const HashedAttentionForward& args, std::int64_t item) {
  using A = AccumulatorOf<S>;
  const HashedAttentionProblem& p = args.problem;
  const A infinity = static_cast<A>(__builtin_inf());
  Scratch::Scope scope(scratch);
  const HeadRows rows{{p, item}};
  const std::int64_t count = rows.count(), dim = p.head_dim;
  const auto inputs = inputs_of(scope, rows, args.qk, args.v, zero_row<S>(scope, dim));
  std::int64_t* order = args.order + item * p.hashes * p.positions;
  sort_by_hash(scope, p, inputs.q, count, args.rotations, order);
  A* lse = static_cast<A*>(args.lse) + item * p.positions;
  std::fill_n(lse, p.positions, -infinity);
  A *out = scope.take<A>(count * dim), *round_out = out, *round_lse = lse;
  if (p.hashes > 1) {
    round_out = scope.take<A>(count * dim);
    round_lse = scope.take<A>(p.positions);
  }
  Chunks<A> chunks(scope, p, order, count);
  for (std::int64_t round = 0; round < p.hashes; ++round) {
    if (round_lse != lse) std::fill_n(round_lse, p.positions, -infinity);
    chunks.for_each(round, [&](const AttentionBlock& block, const SelfMask<A>& bias) {
      attend(scratch, inputs, block, bias, PositionRows<A>{round_out, dim, count, nullptr},
             round_lse);
    });
    if (round_lse != lse) join_round(count, dim, round_out, round_lse, out, lse);
  }
  const auto to = rows.in_out(static_cast<S*>(args.out), static_cast<S*>(nullptr));
  for (std::int64_t i = 0; i < std::min(to.limit, p.lra ? p.positions : p.tokens); ++i) {
    S* row = to.first + i * to.ld;
    if (i >= count) {
      std::fill_n(row, dim, S{});
    } else if (lse[i] == -infinity) {
      std::copy_n(inputs.v.first + i * inputs.v.ld, dim, row);
      lse[i] = infinity;
    } else {
      store_row(out + i * dim, dim, row);
    }
  }
  if (!p.lra) std::fill(lse + count, lse + p.positions, A{0});
}

// Turns dn, the gradient of n = k / |k|, into the gradient of k:
//    (dn - n (n . dn)) / |k|
template <class S, class A>
void through_norm(const S* k, std::int64_t dim, A* dn) {
  const A factor = inverse_norm(row_product<A>(k, k, dim));
  const A along = row_product<A>(k, dn, dim) * factor * factor;
  for_each_vector<A>(dim, [&](std::int64_t d, auto n) {
    store_n(dn + d, (load_n(dn + d, n) - load_n(k + d, n) * along) * factor, n);
  });
}

template <class S>
void backward_head(Scratch& scratch, const HashedAttentionBackward& args, std::int64_t item) {
  using A = AccumulatorOf<S>;
  const HashedAttentionProblem& p = args.problem;
  Scratch::Scope scope(scratch);
  const HeadRows rows{{p, item}};
  const std::int64_t count = rows.count(), dim = p.head_dim;
  const S* zeros = zero_row<S>(scope, dim);
  const auto inputs = inputs_of(scope, rows, args.qk, args.v, zeros);
  const auto out = rows.in_out(static_cast<const S*>(args.out), zeros);
  const auto dout = rows.in_out(static_cast<const S*>(args.dout), zeros);
  const A* lse = static_cast<const A*>(args.lse) + item * p.positions;
  const HeadGradients<A> sums(scope, count, padded_dim<A>(dim));
  Chunks<A> chunks(scope, p, args.order + item * p.hashes * p.positions, count);
  for (std::int64_t round = 0; round < p.hashes; ++round) {
    chunks.for_each(round, [&](const AttentionBlock& block, const SelfMask<A>& bias) {
      attend_back(scratch, inputs, block, bias, out, dout, lse, sums);
    });
  }
  const auto dqk = rows.in(static_cast<S*>(args.dqk), static_cast<S*>(nullptr));
  const auto dv = rows.in(static_cast<S*>(args.dv), static_cast<S*>(nullptr));
  for (std::int64_t i = 0; i < p.tokens; ++i) {
    S *to_qk = dqk.first + i * dqk.ld, *to_v = dv.first + i * dv.ld;
    if (i >= count) {
      std::fill_n(to_qk, dim, S{});
      std::fill_n(to_v, dim, S{});
      continue;
    }
    A *dq = sums.dq + i * sums.ld, *dk = sums.dk + i * sums.ld;
    if (!p.lra) through_norm(inputs.q.first + i * inputs.q.ld, dim, dk);
    for_each_vector<A>(dim, [&](std::int64_t d, auto n) {
      store_n(to_qk + d, load_n(dq + d, n) + load_n(dk + d, n), n);
    });
    // A token that sees only itself may still be seen by others.
    A* sum = sums.dv + i * sums.ld;
    if (lse[i] == static_cast<A>(__builtin_inf())) {
      const S* own = dout.first + i * dout.ld;
      for (std::int64_t d = 0; d < dim; ++d) sum[d] += static_cast<A>(own[d]);
    }
    store_row(sum, dim, to_v);
  }
}

}  // namespace

void run(CpuQueue& queue, const HashedAttentionForward& args) {
  for_dtype("hashed attention", args.problem.dtype, [&](auto t) {
    parallel_for(args.problem.batch * args.problem.heads, [&](std::int64_t item) {
      forward_head<decltype(t)>(queue.scratch(), args, item);
    });
  });
}

void run(CpuQueue& queue, const HashedAttentionBackward& args) {
  for_dtype("hashed attention", args.problem.dtype, [&](auto t) {
    parallel_for(args.problem.batch * args.problem.heads, [&](std::int64_t item) {
      backward_head<decltype(t)>(queue.scratch(), args, item);
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(HashedAttentionForward)
DTN_DISPATCH(HashedAttentionBackward)
