// A bias of attention's scores from a table, for all samples and groups of tokens
// (see grouped_attention.h). Tables are in base 2. Columns past the last key are -infinity. Rows
// past the last query are 0; the last tile of rows may reach them.
#pragma once

#include <cstdint>
#include <cstring>

#include "dtn/core/parallel.h"
#include "kernels/attention/attention_shape.h"
#include "kernels/grouped_attention/grouped_attention.h"

namespace dtn::DTN_ISA {

template <class A>
struct OneTerm {
  const A* row;
  Vec<A> at(std::int64_t key) const { return load(row + key); }
};

// The bias of one head and group: a view of a table [queries, ld] and of the table of its gradient.
template <class A>
class TableBias {
 public:
  TableBias(const A* table, A* gradient, std::int64_t ld)
      : table_(table), gradient_(gradient), ld_(ld) {}
  explicit operator bool() const { return table_ != nullptr; }

  void begin_chunk(std::int64_t first, std::int64_t) { first_ = first; }
  OneTerm<A> terms(std::int64_t query, std::int64_t column) const {
    return {table_ + query * ld_ + first_ + column};
  }
  // Adds the score gradients of a tile.
  template <int R, int V>
  [[gnu::always_inline]] void take(const Vec<A> (&ds)[R][V], std::int64_t query,
                                   std::int64_t column) {
    if (!gradient_) return;
    A* to = gradient_ + query * ld_ + first_ + column;
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        A* sum = to + r * ld_ + v * kLanes<A>;
        store(sum, load(sum) + ds[r][v]);
      }
    }
  }
  void end_chunk() const {}

 private:
  const A* table_;  // null: no bias
  A* gradient_;     // null: not needed
  std::int64_t ld_, first_ = 0;
};

// The tables of all heads, built once per kernel call.
template <class A>
class BiasTables {
 public:
  BiasTables(Scratch::Scope& shared, const GroupedAttentionProblem& p)
      : queries_(p.queries), keys_(p.keys), ld_(round_up(p.keys, 16)) {
    if (!p.bias && !p.regions) return;
    tables_ = shared.take<A>(p.heads * numel());
    parallel_for(p.heads, [&](std::int64_t head) {
      const A* bias = static_cast<const A*>(p.bias);
      fill(bias ? bias + head * queries_ * keys_ : nullptr, tables_ + head * numel());
    });
    if (p.regions) find_regions(shared, p);
  }

  std::int64_t numel() const { return (queries_ + kRowSlack) * ld_; }
  std::int64_t ld() const { return ld_; }

  // Returns the bias from query `first` on. If a group has several regions, its table is built in
  // `scratch`.
  TableBias<A> of(Scratch::Scope& scratch, std::int64_t head, std::int64_t group,
                  std::int64_t first, A* gradient) const {
    if (!tables_) return {nullptr, nullptr, ld_};
    const A* table = tables_ + head * numel();
    if (several_ && several_[group]) table = with_penalties(scratch, table, group);
    return {table + first * ld_, gradient, ld_};
  }

 private:
  // Fills a table from bias [queries, keys], or from zeros if bias is null.
  void fill(const A* bias, A* table) const {
    for (std::int64_t i = 0; i < queries_; ++i, table += ld_) {
      for_each_vector<A>(keys_, [&](std::int64_t j, auto n) {
        Vec<A> values{};
        if (bias) values = load_n(bias + i * keys_ + j, n) * static_cast<A>(kLog2E);
        store(table + j, values);
      });
      for (std::int64_t j = keys_; j < ld_; ++j) table[j] = -static_cast<A>(__builtin_inf());
    }
    std::memset(table, 0, static_cast<std::size_t>(kRowSlack * ld_) * sizeof(A));
  }

  void find_regions(Scratch::Scope& shared, const GroupedAttentionProblem& p) {
    regions_ = shared.take<A>(p.groups * ld_);
    several_ = shared.take<bool>(p.groups);
    for (std::int64_t g = 0; g < p.groups; ++g) {
      const float* regions = p.regions + g * keys_;
      several_[g] = false;
      for (std::int64_t j = 0; j < ld_; ++j) {
        const bool inside = j < keys_;
        regions_[g * ld_ + j] = static_cast<A>(regions[inside ? j : 0]);
        several_[g] |= inside && regions[j] != regions[0];
      }
    }
  }

  const A* with_penalties(Scratch::Scope& scratch, const A* table, std::int64_t group) const {
    const Vec<A> penalty =
        broadcast(static_cast<A>(GroupedAttentionProblem::kRegionPenalty * kLog2E));
    const A* regions = regions_ + group * ld_;
    A* made = scratch.take<A>(numel());
    for (std::int64_t i = 0; i < queries_; ++i) {
      const Vec<A> own = broadcast(regions[i]);
      for (std::int64_t j = 0; j < ld_; j += kLanes<A>) {
        const std::int64_t at = i * ld_ + j;
        store(made + at, load(table + at) + (load(regions + j) != own ? penalty : Vec<A>{}));
      }
    }
    std::memset(made + queries_ * ld_, 0, static_cast<std::size_t>(kRowSlack * ld_) * sizeof(A));
    return made;
  }

  std::int64_t queries_, keys_, ld_;
  A* tables_ = nullptr;      // [H, queries + kRowSlack, ld]; null: no bias and no regions
  A* regions_ = nullptr;     // [G, ld]
  bool* several_ = nullptr;  // [G]: true if a group has several regions; null: none has
};

}  // namespace dtn::DTN_ISA
