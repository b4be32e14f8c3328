// The weights of DTN along a line (see dtn_line.h): for each head the table that most rows share,
// and, tile by tile of the rows, how much of it each sees and the weights of rows that have their
// own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/scratch.h"
#include "kernels/cpu/simd.h"
#include "kernels/dtn/dtn_norm_parts.h"
#include "kernels/dtn_line/dtn_line.h"

namespace dtn::DTN_ISA {

// Rows that are worked on together: whole blocks of kLineRows, whose planes the first-level cache
// holds.
inline constexpr std::int64_t kLineTile = kLanes<float> == 16 ? 64 : 96;

enum class LineKind { kWindow, kMean, kEnds };  // a_d < 0, = 0, > 0

// Windows that reach no further are never cut in making their tables, and those are shares of all
// their weights: rows that see all of them need no scale.
inline constexpr std::int64_t kShortRadius = 512;

// The weights of one head. With t = d - middle the table holds w(t) / total,
// w(t) = exp(t (a_d (t + 2 middle) + a_x)), which is 1 at t = 0.
template <class A>
struct LineWindow {
  LineKind kind;
  double a_x, a_d;              // the first turned round for the official variant
  std::int64_t middle, radius;  // kWindow: taps t = -radius, ..., radius
  A *table, *reversed;          // [2 radius + 1], the second from the last tap to the first
  double total;                 // sum of w, or 1 where the radius is not short
  // Sums over t = 0, ..., k of w, t w and t^2 w, and over t = -k, ..., -1; [3, radius + 1] each.
  // They do not depend on the radius, which the length of the longest sample may cut.
  double *after, *before;

  // Rows [inner_begin, inner_end) of a line of n share the table; the others are beyond an end.
  std::int64_t inner_begin(std::int64_t n) const {
    if (kind != LineKind::kWindow) return n;
    return std::clamp<std::int64_t>(-middle, 0, n);
  }
  std::int64_t inner_end(std::int64_t n) const {
    return std::max(inner_begin(n), std::clamp<std::int64_t>(n - middle, 0, n));
  }
  double exponent(std::int64_t t) const {
    const auto from_middle = static_cast<double>(t);
    return from_middle * (a_d * (from_middle + 2 * static_cast<double>(middle)) + a_x);
  }
};

// Sums of w, t w and t^2 w.
struct LineSums {
  double weight, offset, square;
};

// Of the taps [from, to], from <= 0 <= to.
template <class A>
LineSums sums_of_taps(const LineWindow<A>& w, std::int64_t from, std::int64_t to) {
  const std::int64_t kind = w.radius + 1;
  return {w.after[to] + w.before[-from], w.after[kind + to] + w.before[kind - from],
          w.after[2 * kind + to] + w.before[2 * kind - from]};
}

template <class A>
void fill_table(LineWindow<A>& w) {
  const std::int64_t kind = w.radius + 1;
  LineSums after{}, before{};
  for (std::int64_t t = 0; t <= w.radius; ++t) {
    const auto d = static_cast<double>(t);
    for (double side : {1.0, -1.0}) {
      const std::int64_t tap = side > 0 ? t : -t;
      const double weight = std::exp(w.exponent(tap));
      if (tap == 0 && side < 0) continue;
      LineSums& sums = side > 0 ? after : before;
      sums = {sums.weight + weight, sums.offset + side * d * weight, sums.square + d * d * weight};
    }
    w.after[t] = after.weight;
    w.after[kind + t] = after.offset;
    w.after[2 * kind + t] = after.square;
    w.before[t] = before.weight;
    w.before[kind + t] = before.offset;
    w.before[2 * kind + t] = before.square;
  }
  w.total = w.radius <= kShortRadius ? after.weight + before.weight : 1;
  for (std::int64_t t = -w.radius; t <= w.radius; ++t) {
    double share = std::exp(w.exponent(t)) / w.total;
    if (share < static_cast<double>(std::numeric_limits<A>::min())) share = 0;
    w.table[w.radius + t] = w.reversed[w.radius - t] = static_cast<A>(share);
  }
}

// Of a head on lines of at most `longest` tokens; `weights` are its a_x, a_y, a_d. Weights that are
// not finite make rows of their own, which are then NaN.
template <class A>
LineWindow<A> make_window(const A* weights, DtnVariant variant, std::int64_t longest,
                          Scratch::Scope& scope) {
  LineWindow<A> w{};
  w.a_x = variant == DtnVariant::kOfficial ? -static_cast<double>(weights[0])
                                           : static_cast<double>(weights[0]);
  w.a_d = static_cast<double>(weights[2]);
  const bool finite = std::isfinite(w.a_x) && std::isfinite(w.a_d);
  w.kind = !finite     ? LineKind::kEnds
           : w.a_d < 0 ? LineKind::kWindow
           : w.a_d > 0 ? LineKind::kEnds
                       : LineKind::kMean;
  if (w.kind != LineKind::kWindow) return w;
  const auto most = static_cast<double>(longest);
  w.middle =
      static_cast<std::int64_t>(std::nearbyint(std::clamp(w.a_x / (-2 * w.a_d), -most, most)));
  w.radius = dtn_line_radius(
      w.a_d, dtn_line_least_weight(sizeof(A) == 8 ? DType::kFloat64 : DType::kFloat32),
      std::max(longest, kShortRadius + 1));
  w.table = scope.take<A>(2 * w.radius + 1);
  w.reversed = scope.take<A>(2 * w.radius + 1);
  w.after = scope.take<double>(3 * (w.radius + 1));
  w.before = scope.take<double>(3 * (w.radius + 1));
  return w;
}

// Rows of a tile that have weights of their own, over columns [0, left) and [right, n).
template <class A>
struct OwnRows {
  std::int64_t begin = 0, end = 0;  // rows of the line
  std::int64_t left = 0, right = 0;
  std::int64_t columns = 0, stride = 0;
  A* p = nullptr;  // [end - begin, stride], rows sum to 1
  A *by_offset = nullptr,
    *by_square = nullptr;  // p (d - mean of d), p (d^2 - mean of d^2), or null

  bool any() const { return begin < end; }
  std::int64_t column(std::int64_t k) const { return k < left ? k : k - left + right; }
};

// The end of the line on which row i leans, or where its window's middle lies beyond.
template <class A>
std::int64_t nearest_end(const LineWindow<A>& w, std::int64_t i, std::int64_t n) {
  if (w.kind == LineKind::kWindow) return w.middle > 0 ? n - 1 : 0;
  const auto last = static_cast<double>(n - 1);
  return w.a_d * (last - 2 * static_cast<double>(i)) + w.a_x > 0 ? n - 1 : 0;
}

// Widens own.left and own.right to all that matters in row i of a line that leans on its ends. The
// exponent falls from either end to its vertex, i + delta, so the last place is found by bisection.
template <class A>
void widen_to_row(const LineWindow<A>& w, std::int64_t i, std::int64_t n, OwnRows<A>& own) {
  const double least =
      std::log(dtn_line_least_weight(sizeof(A) == 8 ? DType::kFloat64 : DType::kFloat32));
  const std::int64_t c = nearest_end(w, i, n);
  auto matters = [&](std::int64_t j) {  // NaN does
    const auto t = static_cast<double>(j - c);
    return !(t * (w.a_d * static_cast<double>(j + c - 2 * i) + w.a_x) < least);
  };
  const double vertex = static_cast<double>(i) - w.a_x / (2 * w.a_d);
  std::int64_t turn = n;  // NaN: all of the line is left of it
  if (vertex < static_cast<double>(n)) turn = vertex > 0 ? static_cast<std::int64_t>(vertex) : 0;
  std::int64_t from = own.left, to = turn;  // the left ones end in [from, to]
  while (from < to) {
    const std::int64_t j = from + (to - from) / 2;
    if (matters(j)) {
      from = j + 1;
    } else {
      to = j;
    }
  }
  own.left = std::max(own.left, from);
  from = turn;
  to = own.right;
  while (from < to) {
    const std::int64_t j = from + (to - from) / 2;
    if (matters(j)) {
      to = j;
    } else {
      from = j + 1;
    }
  }
  own.right = std::min(own.right, to);
}

// Row i of the weights, and what its gradient needs.
template <class A>
void make_own_row(const LineWindow<A>& w, std::int64_t i, std::int64_t n, const OwnRows<A>& own) {
  using Wide = typename WideType<A>::type;
  const std::int64_t c = nearest_end(w, i, n), at = (i - own.begin) * own.stride;
  const Vec<A> iota = lane_indices<A>();
  A* p = own.p + at;
  const auto twice = 2 * static_cast<double>(c - i);
  // t = j - c of the columns from k on; where the two parts meet lanes are of either.
  auto from_end = [&](std::int64_t k) {
    const Vec<A> place = iota + static_cast<A>(k);
    const Vec<A> gap = place < static_cast<A>(own.left)
                           ? Vec<A>{}
                           : broadcast(static_cast<A>(own.right - own.left));
    return place + gap - static_cast<A>(c);
  };
  Wide sum{}, first{}, second{};
  for_each_vector<A>(own.columns, [&](std::int64_t k, auto count) {
    const Vec<A> t = from_end(k);
    const Wide wide = __builtin_convertvector(t, Wide);
    const Wide exponent = wide * (w.a_d * (wide + twice) + w.a_x);
    const Vec<A> e = keep_n(exp(__builtin_convertvector(exponent, Vec<A>)), count);
    store(p + k, e);
    const Wide weight = __builtin_convertvector(e, Wide);
    sum += weight;
    first += weight * wide;
    second += weight * wide * wide;
  });
  LineSums sums{};
  for (int lane = 0; lane < kLanes<A>; ++lane) {
    sums = {sums.weight + sum[lane], sums.offset + first[lane], sums.square + second[lane]};
  }
  const A scale = static_cast<A>(1 / sums.weight);
  const double mean = sums.offset / sums.weight, mean_square = sums.square / sums.weight;
  for (std::int64_t k = 0; k < own.columns; k += kLanes<A>) {
    const Vec<A> share = normal_or_zero<A>(load(p + k) * scale);
    store(p + k, share);
    if (!own.by_offset) continue;
    // The differences are small beside what they are made of.
    const Wide weight = __builtin_convertvector(share, Wide);
    const Wide t = __builtin_convertvector(from_end(k), Wide), off = t - mean;
    const Wide square = off * twice + (t * t - mean_square);
    store(own.by_offset + at + k, __builtin_convertvector(weight * off, Vec<A>));
    store(own.by_square + at + k, __builtin_convertvector(weight * square, Vec<A>));
  }
}

// What rows [first, first + rows) of a line of n see of a head's weights.
template <class A>
struct LineTile {
  std::int64_t first, rows;
  // Rows that share the table; they see `taps` of its taps, from j - i = low on, and what lies
  // beyond the line as zeros.
  std::int64_t inner_begin, inner_end, low, taps;
  const A* table;  // from that tap on
  bool whole;      // all rows are inner and see all taps, which need no scale then
  // Of inner rows, from `first` on: total / sum of w; means of t and of t^2 (where gradients are wanted).
  A *scale, *mean, *mean_square;
  OwnRows<A> own;

  bool inner() const { return inner_begin < inner_end; }
};

// Makes the tiles of one head of one sample, one at a time.
template <class A>
class LineTiles {
 public:
  LineTiles(const LineWindow<A>& window, std::int64_t n, bool gradients, Scratch::Scope& scope)
      : window_(window), n_(n), gradients_(gradients) {
    tile_.scale = scope.take<A>(3 * kLineTile);
    tile_.mean = tile_.scale + kLineTile;
    tile_.mean_square = tile_.mean + kLineTile;
  }

  const LineWindow<A>& window() const { return window_; }
  std::int64_t n() const { return n_; }

  // Own weights are taken from `scope`.
  const LineTile<A>& make(std::int64_t first, Scratch::Scope& scope) {
    tile_.first = first;
    tile_.rows = std::min(kLineTile, n_ - first);
    const std::int64_t end = first + tile_.rows;
    tile_.inner_begin = std::clamp(window_.inner_begin(n_), first, end);
    tile_.inner_end = std::clamp(window_.inner_end(n_), tile_.inner_begin, end);
    tile_.whole = false;
    if (tile_.inner()) share_table();
    tile_.own = {};
    if (window_.kind == LineKind::kMean) return tile_;
    tile_.own.begin = tile_.inner_begin > first ? first : tile_.inner_end;
    tile_.own.end = tile_.inner_begin > first ? tile_.inner_begin : end;
    if (tile_.own.any()) make_own(scope);
    return tile_;
  }

 private:
  void share_table() {
    const LineWindow<A>& w = window_;
    const std::int64_t low = std::max(w.middle - w.radius, -(tile_.inner_end - 1));
    const std::int64_t high = std::min(w.middle + w.radius, n_ - 1 - tile_.inner_begin);
    tile_.low = low;
    tile_.taps = high - low + 1;
    tile_.table = w.table + (low - w.middle + w.radius);
    tile_.whole = w.radius <= kShortRadius && tile_.inner_end - tile_.inner_begin == tile_.rows &&
                  tile_.inner_begin + w.middle >= w.radius &&
                  tile_.inner_end + w.middle + w.radius <= n_;
    if (tile_.whole) return;
    for (std::int64_t i = tile_.inner_begin; i < tile_.inner_end; ++i) {
      const LineSums sums = sums_of_taps(w, std::max(-w.radius, -i - w.middle),
                                         std::min(w.radius, n_ - 1 - i - w.middle));
      const std::int64_t k = i - tile_.first;
      tile_.scale[k] = static_cast<A>(w.total / sums.weight);
      tile_.mean[k] = static_cast<A>(sums.offset / sums.weight);
      tile_.mean_square[k] = static_cast<A>(sums.square / sums.weight);
    }
  }

  void make_own(Scratch::Scope& scope) {
    OwnRows<A>& own = tile_.own;
    own.right = n_;
    if (window_.kind == LineKind::kWindow) {
      if (window_.middle > 0) {
        own.right = std::max<std::int64_t>(0, n_ - 1 - window_.radius);
      } else {
        own.left = std::min(n_, window_.radius + 1);
      }
    } else {
      for (std::int64_t i = own.begin; i < own.end; ++i) widen_to_row(window_, i, n_, own);
      if (own.left >= own.right) own.left = own.right = n_;
    }
    own.columns = own.left + n_ - own.right;
    own.stride = (own.columns + kLanes<A> - 1) / kLanes<A> * kLanes<A>;
    const std::int64_t size = (own.end - own.begin) * own.stride;
    own.p = scope.take<A>(size);
    if (gradients_) own.by_offset = scope.take<A>(size);
    if (gradients_) own.by_square = scope.take<A>(size);
    for (std::int64_t i = own.begin; i < own.end; ++i) make_own_row(window_, i, n_, own);
  }

  const LineWindow<A>& window_;
  std::int64_t n_;
  bool gradients_;
  LineTile<A> tile_{};
};

}  // namespace dtn::DTN_ISA
