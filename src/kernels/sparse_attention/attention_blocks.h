// Sparse attention consists of blocks. A block is some queries of a head and the keys that all of
// them see. Attention on a block is computed like that of a whole head (attention_forward.h,
// attention_backward.h), on rows found through lists of positions. The gradients of a head are
// summed over its blocks, in their order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/attention_backward.h"
#include "kernels/attention/attention_forward.h"

namespace dtn::DTN_ISA {

// Positions in a sequence. No position occurs twice among the queries of a block.
struct AttentionBlock {
  const std::int64_t* queries;
  std::int64_t query_count;
  const std::int64_t* keys;
  std::int64_t key_count;
};

// The rows of one head by position. All positions from `limit` on share the spare row.
template <class T>
struct PositionRows {
  T* first;
  std::int64_t ld, limit;
  T* spare;

  PickedRows<T> at(const std::int64_t* positions) const {
    return {first, ld, limit, spare, positions};
  }
};

// One head of one sample, in arrays of a BlockAttentionProblem or a HashedAttentionProblem.
template <class Problem>
struct SampleHead {
  const Problem& p;
  std::int64_t item;  // sample H + head

  std::int64_t sample() const { return item / p.heads; }
  std::int64_t head() const { return item % p.heads; }
  std::int64_t length() const {
    return p.lengths ? p.lengths[sample()] : p.tokens;
  }  // valid tokens
  // Its rows in an array [B, T, H, D].
  template <class T>
  PositionRows<T> in(T* array, T* spare) const {
    return {array + (sample() * p.tokens * p.heads + head()) * p.head_dim, p.heads * p.head_dim,
            p.tokens, spare};
  }
};

template <class S>
struct HeadInputs {
  PositionRows<const S> q, k, v;
  std::int64_t dim;  // D
  double scale;
};

// Computes the outputs, of type O, and the log-sum-exp of the scores of a block's queries. Writes
// both by position.
template <class S, class Bias, class O>
void attend(Scratch& scratch, const HeadInputs<S>& head, const AttentionBlock& block,
            const Bias& bias, const PositionRows<O>& out, AccumulatorOf<S>* lse) {
  using A = AccumulatorOf<S>;
  using Head = ForwardHead<S, PickedRows, Bias, PickedRows<O>>;
  Scratch::Scope scope(scratch);
  const typename Head::Shape shape(
      {block.query_count, block.key_count, head.dim, head.dim, head.scale}, Head::max_rows);
  A* block_lse = scope.take<A>(block.query_count);
  Head(scope, shape, bias, {})
      .run({head.q.at(block.queries), head.k.at(block.keys), head.v.at(block.keys),
            out.at(block.queries), block_lse});
  for (std::int64_t i = 0; i < block.query_count; ++i) lse[block.queries[i]] = block_lse[i];
}

// The gradients of one head by position, [count, padded D], in the accumulator type.
template <class A>
struct HeadGradients {
  std::int64_t count, ld;
  A *dq = nullptr, *dk = nullptr, *dv = nullptr;

  HeadGradients(Scratch::Scope& scratch, std::int64_t positions, std::int64_t padded_dim)
      : count(positions), ld(padded_dim) {
    for (A** sums : {&dq, &dk, &dv}) {
      *sums = scratch.take<A>(count * ld);
      std::fill_n(*sums, count * ld, A{0});
    }
  }
};

// Adds the gradients of a block to `sums`, given the gradients of its outputs. lse is by position.
template <class S, class Bias>
void attend_back(Scratch& scratch, const HeadInputs<S>& head, const AttentionBlock& block,
                 const Bias& bias, const PositionRows<const S>& out,
                 const PositionRows<const S>& dout, const AccumulatorOf<S>* lse,
                 const HeadGradients<AccumulatorOf<S>>& sums) {
  using A = AccumulatorOf<S>;
  using Head = BackwardHead<S, PickedRows, Bias, AddedRows<A>>;
  Scratch::Scope scope(scratch);
  const typename Head::Shape shape(
      {block.query_count, block.key_count, head.dim, head.dim, head.scale}, Head::max_rows);
  A* block_lse = scope.take<A>(block.query_count);
  for (std::int64_t i = 0; i < block.query_count; ++i) block_lse[i] = lse[block.queries[i]];
  const auto added = [&](A* rows, const std::int64_t* positions) {
    return AddedRows<A>{rows, sums.ld, positions};
  };
  Head(scope, shape, bias, {})
      .run({head.q.at(block.queries), head.k.at(block.keys), head.v.at(block.keys),
            out.at(block.queries), dout.at(block.queries), block_lse, added(sums.dq, block.queries),
            added(sums.dk, block.keys), added(sums.dv, block.keys)});
}

// D rounded up to whole vectors of the accumulator type.
template <class A>
std::int64_t padded_dim(std::int64_t dim) {
  return round_up(dim, kLanes<A>);
}

// A row of zeros for positions past the end of an array.
template <class S>
const S* zero_row(Scratch::Scope& scratch, std::int64_t dim) {
  S* row = scratch.take<S>(dim);
  std::fill_n(row, dim, S{});
  return row;
}

template <class A, class X, class Y>
A row_product(const X* a, const Y* b, std::int64_t dim) {
  Vec<A> sum{};
  for_each_vector<A>(dim,
                     [&](std::int64_t d, auto n) { sum += load_n(a + d, n) * load_n(b + d, n); });
  return reduce_add(sum);
}

// to [D] = from [D], converted to S.
template <class S, class A>
void store_row(const A* from, std::int64_t dim, S* to) {
  for_each_vector<A>(dim, [&](std::int64_t d, auto n) { store_n(to + d, load_n(from + d, n), n); });
}

}  // namespace dtn::DTN_ISA
