// Weights of DTN on sequences (see dtn_sequence.h). Most rows of a head share one table. For each
// tile of rows: the part of the table that each row uses, and the weights of rows that do not share
// it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/scratch.h"
#include "kernels/cpu/simd.h"
#include "kernels/dtn/dtn_norm_parts.h"
#include "kernels/dtn_sequence/dtn_sequence.h"

namespace dtn::DTN_ISA {

// Rows per tile: whole blocks of kLineRows, whose planes fit in the first-level cache.
inline constexpr std::int64_t kLineTile = kLanes<float> == 16 ? 64 : 96;

enum class LineKind { kWindow, kMean, kEnds };  // a_d < 0, = 0, > 0

// Windows with at most this radius are never cut when their table is built. The table is divided by
// the sum of all weights, so rows that use all taps need no scale.
inline constexpr std::int64_t kShortRadius = 512;

// The weights of one head. With t = d - middle the table holds w(t) / total:
//    w(t) = exp(t (a_d (t + 2 middle) + a_x)),   w(0) = 1
template <class A>
struct LineWindow {
  LineKind kind;
  double a_x, a_d;              // a_x is negated for the official variant
  std::int64_t middle, radius;  // kWindow: taps t = -radius, ..., radius
  A *table, *reversed;          // [2 radius + 1]; `reversed` begins with the last tap
  double total;                 // sum of w; 1 if radius > kShortRadius
  // Sums of w, t w and t^2 w over t = 0, ..., k, and over t = -k, ..., -1; [3, radius + 1] each.
  // They do not depend on the radius, which the length of the longest sample may cut.
  double *after, *before;

  // Rows [inner_begin, inner_end) of a sequence of n share the table. The windows of the other rows
  // have their middle beyond an end.
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

// Returns the sums over the taps [from, to], from <= 0 <= to.
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

// Returns the window of a head for sequences of at most `longest` tokens. `weights` are a_x, a_y,
// a_d of the head. If they are not finite, all rows have their own weights, which are then NaN.
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
  w.radius = dtn_sequence_radius(
      w.a_d, dtn_sequence_least_weight(sizeof(A) == 8 ? DType::kFloat64 : DType::kFloat32),
      std::max(longest, kShortRadius + 1));
  w.table = scope.take<A>(2 * w.radius + 1);
  w.reversed = scope.take<A>(2 * w.radius + 1);
  w.after = scope.take<double>(3 * (w.radius + 1));
  w.before = scope.take<double>(3 * (w.radius + 1));
  return w;
}

// Rows of a tile that have their own weights, over columns [0, left) and [right, n).
template <class A>
struct OwnRows {
  std::int64_t begin = 0, end = 0;  // rows of P
  std::int64_t left = 0, right = 0;
  std::int64_t columns = 0, stride = 0;
  A* p = nullptr;  // [end - begin, stride], rows sum to 1
  A *by_offset = nullptr,
    *by_square = nullptr;  // p (d - mean of d), p (d^2 - mean of d^2), or null

  bool any() const { return begin < end; }
  std::int64_t column(std::int64_t k) const { return k < left ? k : k - left + right; }
};

// The end of the sequence that has the largest weight of row i. For kWindow: the end beyond which
// the window's middle lies.
template <class A>
std::int64_t nearest_end(const LineWindow<A>& w, std::int64_t i, std::int64_t n) {
  if (w.kind == LineKind::kWindow) return w.middle > 0 ? n - 1 : 0;
  const auto last = static_cast<double>(n - 1);
  return w.a_d * (last - 2 * static_cast<double>(i)) + w.a_x > 0 ? n - 1 : 0;
}

// Returns the first element of [from, to) for which `holds` is true, or `to`. `holds` must also be
// true for all elements after it.
template <class F>
std::int64_t first_that(std::int64_t from, std::int64_t to, F&& holds) {
  while (from < to) {
    const std::int64_t j = from + (to - from) / 2;
    if (holds(j)) {
      to = j;
    } else {
      from = j + 1;
    }
  }
  return from;
}

// Extends the columns of `own` to all weights of row i that are not left out, for kEnds. The
// exponent falls from both ends to its vertex, i + delta, so bisection finds where the weights
// become too small.
template <class A>
void extend_to_row(const LineWindow<A>& w, std::int64_t i, std::int64_t n, OwnRows<A>& own) {
  const double least =
      std::log(dtn_sequence_least_weight(sizeof(A) == 8 ? DType::kFloat64 : DType::kFloat32));
  const std::int64_t c = nearest_end(w, i, n);
  auto matters = [&](std::int64_t j) {  // true for NaN
    const auto t = static_cast<double>(j - c);
    return !(t * (w.a_d * static_cast<double>(j + c - 2 * i) + w.a_x) < least);
  };
  const double vertex = static_cast<double>(i) - w.a_x / (2 * w.a_d);
  std::int64_t turn = n;  // if vertex is NaN: all tokens are left of it
  if (vertex < static_cast<double>(n)) turn = vertex > 0 ? static_cast<std::int64_t>(vertex) : 0;
  own.left = std::max(own.left, first_that(own.left, turn, [&](auto j) { return !matters(j); }));
  own.right = std::min(own.right, first_that(turn, own.right, matters));
}

// Computes row i of the weights, and the factors for its gradient.
template <class A>
void make_own_row(const LineWindow<A>& w, std::int64_t i, std::int64_t n, const OwnRows<A>& own) {
  using Wide = typename WideType<A>::type;
  const std::int64_t c = nearest_end(w, i, n), at = (i - own.begin) * own.stride;
  const Vec<A> iota = lane_indices<A>();
  A* p = own.p + at;
  const auto twice = 2 * static_cast<double>(c - i);
  // t = j - c of the columns from k on. One vector may hold columns of both parts.
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
    // In float64, because the differences cancel.
    const Wide weight = __builtin_convertvector(share, Wide);
    const Wide t = __builtin_convertvector(from_end(k), Wide), off = t - mean;
    const Wide square = off * twice + (t * t - mean_square);
    store(own.by_offset + at + k, __builtin_convertvector(weight * off, Vec<A>));
    store(own.by_square + at + k, __builtin_convertvector(weight * square, Vec<A>));
  }
}

// The weights of a head for rows [first, first + rows) of a sequence of n.
template <class A>
struct LineTile {
  std::int64_t first, rows;
  // Rows that share the table. They use `taps` of its taps, from j - i = low on. Tokens beyond the
  // sequence count as zeros.
  std::int64_t inner_begin, inner_end, low, taps;
  const A* table;  // from tap `low` on
  bool whole;      // all rows are inner rows, use all taps, and need no scale
  // For inner rows, indexed from `first` on: total / sum of w; means of t and of t^2 (for
  // gradients).
  A *scale, *mean, *mean_square;
  OwnRows<A> own;

  bool inner() const { return inner_begin < inner_end; }
};

// Builds the tiles of one head of one sample, one at a time.
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

  // Allocates the rows' own weights from `scope`.
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
      for (std::int64_t i = own.begin; i < own.end; ++i) extend_to_row(window_, i, n_, own);
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
