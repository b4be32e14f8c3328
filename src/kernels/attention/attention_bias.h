// The positional bias of attention (see attention.h). The bias is a sum of a term in (x_i, x_j) and
// a term in (y_i, y_j). So a head has two tables: one with a row per grid column, one with a row
// per grid row. A table row holds the term of a query at that column or row for each key. The bias
// of a score is the sum of two loads. The backward pass adds ds to two tables of the same layout,
// which are contracted with the offsets at the end of a chunk.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/attention/attention_shape.h"

namespace dtn::DTN_ISA {

// Grid positions of the tokens, the same for every head.
template <class A>
struct TokenPlaces {
  std::int64_t grid_h = 0, grid_w = 0;
  const A *x = nullptr, *y = nullptr;  // [T] and kRowSlack zeros; null: no bias
  // Offset of a query's rows in the tables, in elements. Tile rows past the last query have valid
  // offsets too: they point to the row after those of the grid.
  const std::int64_t *x_row = nullptr, *y_row = nullptr;  // [T + kRowSlack]

  template <class Shape, class Args>
  static TokenPlaces of(Scratch::Scope& scratch, const Shape& shape, const Args& args) {
    TokenPlaces places;
    if (!args.pos_weight) return places;
    const std::int64_t padded = shape.padded_queries();
    A *x = scratch.take<A>(padded), *y = scratch.take<A>(padded);
    auto *x_row = scratch.take<std::int64_t>(padded), *y_row = scratch.take<std::int64_t>(padded);
    for (std::int64_t i = 0; i < padded; ++i) {
      bool inside = i < shape.queries;
      std::int64_t column = i % args.grid_w, row = i / args.grid_w;
      x[i] = inside ? static_cast<A>(column) : A{0};
      y[i] = inside ? static_cast<A>(row) : A{0};
      x_row[i] = (inside ? column : args.grid_w) * shape.chunk;
      y_row[i] = (inside ? row : args.grid_h) * shape.chunk;
    }
    places.grid_h = args.grid_h, places.grid_w = args.grid_w;
    places.x = x, places.y = y, places.x_row = x_row, places.y_row = y_row;
    return places;
  }
  explicit operator bool() const { return x != nullptr; }
};

// The bias of one query for the keys from some key on: the sum of two table rows.
template <class A>
struct TwoTerms {
  const A *x, *y;
  Vec<A> at(std::int64_t key) const { return load(x + key) + load(y + key); }
};

// The tables of one head and one chunk of keys, in base 2, and the tables of their gradient.
template <class A>
class HeadBias {
 public:
  // weights [H, 3]: a_x, a_y, a_d of every head. `keys` is the maximum chunk length.
  // dweight [3] +=; null: not needed.
  HeadBias(Scratch::Scope& scratch, const TokenPlaces<A>& places, const void* weights,
           std::int64_t head, std::int64_t keys, A* dweight)
      : places_(places), keys_(keys), dweight_(dweight) {
    if (!places) return;
    const A* weight = static_cast<const A*>(weights) + 3 * head;
    for (int k = 0; k < 3; ++k) weight_[k] = weight[k] * static_cast<A>(kLog2E);
    auto take = [&](A*& x, A*& y) {
      x = scratch.take<A>((places.grid_w + 1) * keys);
      y = scratch.take<A>((places.grid_h + 1) * keys);
    };
    take(x_, y_);
    if (dweight) take(dx_, dy_);
  }
  explicit operator bool() const { return static_cast<bool>(places_); }

  // Fills the tables for `count` keys from `first` on; columns past the last key get -infinity.
  [[gnu::noinline]] void begin_chunk(std::int64_t first, std::int64_t count) {
    first_ = first, count_ = count;
    fill(x_, places_.x, places_.grid_w, weight_[0]);
    fill(y_, places_.y, places_.grid_h, weight_[1]);
    const std::int64_t last = (vectors() - 1) * kLanes<A>;
    const Vec<A> padding = padding_bias<A>(count - last);
    for (std::int64_t i = 0; i <= places_.grid_w; ++i) {
      A* at = x_ + i * keys_ + last;
      store(at, load(at) + padding);
    }
    if (!dx_) return;
    std::memset(dx_, 0, static_cast<std::size_t>((places_.grid_w + 1) * keys_) * sizeof(A));
    std::memset(dy_, 0, static_cast<std::size_t>((places_.grid_h + 1) * keys_) * sizeof(A));
  }

  // The bias of a query for the keys of the chunk from `column` on.
  TwoTerms<A> terms(std::int64_t query, std::int64_t column) const {
    return {x_ + places_.x_row[query] + column, y_ + places_.y_row[query] + column};
  }

  // Adds the score gradients of a tile. Most of its queries lie in one row of the grid.
  template <int R, int V>
  [[gnu::always_inline]] void take(const Vec<A> (&ds)[R][V], std::int64_t query,
                                   std::int64_t column) {
    A* dx[R];
    A* dy[R];
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) {
      dx[r] = dx_ + places_.x_row[query + r] + column;
      dy[r] = dy_ + places_.y_row[query + r] + column;
    }
    Vec<A> sum[V] = {};
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        add(dx[r] + v * kLanes<A>, ds[r][v]);
        sum[v] += ds[r][v];
      }
      if (r + 1 < R && dy[r + 1] == dy[r]) continue;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        add(dy[r] + v * kLanes<A>, sum[v]);
        sum[v] = Vec<A>{};
      }
    }
  }

  // dweight += the sums over this chunk of ds times (dx, dy, dx^2 + dy^2).
  [[gnu::noinline]] void end_chunk() const {
    contract(dx_, places_.x, places_.grid_w, dweight_[0], dweight_[2]);
    contract(dy_, places_.y, places_.grid_h, dweight_[1], dweight_[2]);
  }

 private:
  std::int64_t vectors() const { return divide_up(count_, kLanes<A>); }

  static void add(A* to, Vec<A> v) { store(to, load(to) + v); }

  // table[i][j] = a_d d^2 + a d, where d is the position of key j minus i. Zeroes one more row.
  void fill(A* table, const A* place, std::int64_t places, A weight) const {
    for (std::int64_t i = 0; i < places; ++i) {
      for (std::int64_t j = 0; j < vectors() * kLanes<A>; j += kLanes<A>) {
        Vec<A> d = load(place + first_ + j) - static_cast<A>(i);
        store(table + i * keys_ + j, (weight_[2] * d + weight) * d);
      }
    }
    std::memset(table + places * keys_, 0, static_cast<std::size_t>(keys_) * sizeof(A));
  }

  void contract(const A* table, const A* place, std::int64_t places, A& linear,
                A& quadratic) const {
    Vec<A> first{}, second{};
    for (std::int64_t i = 0; i < places; ++i) {
      for (std::int64_t j = 0; j < vectors() * kLanes<A>; j += kLanes<A>) {
        Vec<A> d = load(place + first_ + j) - static_cast<A>(i);
        Vec<A> moment = load(table + i * keys_ + j) * d;
        first += moment;
        second += moment * d;
      }
    }
    linear += reduce_add(first);
    quadratic += reduce_add(second);
  }

  const TokenPlaces<A>& places_;
  std::int64_t keys_, first_ = 0, count_ = 0;
  A weight_[3] = {};
  A* dweight_;
  A *x_ = nullptr, *y_ = nullptr;    // [grid_w + 1, keys], [grid_h + 1, keys]
  A *dx_ = nullptr, *dy_ = nullptr;  // the same for the gradient
};

}  // namespace dtn::DTN_ISA
