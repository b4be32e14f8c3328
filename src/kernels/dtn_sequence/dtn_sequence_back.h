// State of one head in the backward pass of DTN on sequences, kept between the tiles of a sample.
// P^T dm of a token needs dm of all rows that read the token. So a second loop over the tokens
// follows the loop over the rows, at the distance of the window's reach. It completes the gradients
// of tokens.
#pragma once

#include <algorithm>

#include "kernels/dtn_sequence/dtn_sequence_parts.h"

namespace dtn::DTN_ISA {

// Distance between the rows of a head and its completed tokens, for rows that share the table.
template <class A>
struct TailReach {
  std::int64_t low = 0, high = 0;      // j - i of the first and the last tap
  std::int64_t behind = 0, ahead = 0;  // rows before and after a token that read it
  std::int64_t kept = 0;  // largest number of rows kept for later tiles; 0: no shared table

  TailReach(const LineWindow<A>& w, std::int64_t n) {
    const std::int64_t begin = w.inner_begin(n), end = w.inner_end(n);
    if (begin == end) return;
    low = std::max(w.middle - w.radius, -(end - 1));
    high = std::min(w.middle + w.radius, n - 1 - begin);
    behind = std::max<std::int64_t>(high, 0);
    ahead = std::max<std::int64_t>(-low, 0);
    kept = behind + std::min(n, std::max(ahead, std::min(n, w.radius + 1)));
  }
  // Rows of a plane while a tile is processed.
  std::int64_t rows() const { return kept + kLineTile + ahead + kLineSlack; }
};

// Rows of a head, one group of channels at a time, in three planes. Two hold the gradients of the
// moments of inner rows for the transposed pass, multiplied by the scales of the rows; they are 0
// for other rows and beyond the sequence. The third holds the part of dx that does not go through
// the moments. While a group is processed, its rows lie in planes that all heads share. Between
// tiles, the rows that are still needed are copied to the head's memory.
template <class A>
class LineTail {
 public:
  static constexpr int kDirect = 2;  // plane of the part of dx that does not go through the moments

  LineTail(const LineWindow<A>& w, std::int64_t n, std::int64_t groups, Scratch::Scope& scope)
      : window_(w), n_(n), reach_(w, n), first_(-reach_.behind) {
    const std::int64_t size = kPlanes * groups * reach_.kept * kLanes<A>;
    if (!any()) return;
    kept_ = scope.take<A>(size);
    std::fill_n(kept_, size, A(0));
  }

  bool any() const { return reach_.kept > 0; }
  static A* planes(std::int64_t rows, Scratch::Scope& scope) {
    return LinePlanes<A>::plane(scope, kPlanes * rows);
  }
  // Sets the planes to use from now on, with `rows` rows each.
  void work_in(A* planes, std::int64_t rows) {
    work_ = planes;
    capacity_ = rows;
  }

  // Row i of a plane.
  A* at(int plane, std::int64_t i) const {
    return work_ + (plane * capacity_ + i - first_) * kLanes<A>;
  }
  void bring(std::int64_t group) const {
    for (int k = 0; k < kPlanes; ++k) copy(kept_at(group, k), end_ - first_, at(k, first_));
  }
  // Saves the rows that later tiles need. Tokens before `done` are completed, rows before `end` are
  // computed.
  void keep(std::int64_t group, std::int64_t done, std::int64_t end) const {
    const std::int64_t first = done - reach_.behind;
    for (int k = 0; k < kPlanes; ++k) copy(at(k, first), end - first, kept_at(group, k));
  }
  // Advances to the next tile; call it when all groups are kept.
  void move_on(std::int64_t done, std::int64_t end) {
    first_ = done - reach_.behind;
    end_ = end;
  }
  // Sets the gradients of the moments of rows [begin, end) to 0.
  void clear_rows(std::int64_t begin, std::int64_t end) const {
    for (int k = 0; k < kDirect; ++k) std::fill(at(k, begin), at(k, end), A(0));
  }
  // Sets the rows beyond the sequence to 0; call it when all rows are computed.
  void close() const { clear_rows(n_, n_ + reach_.ahead); }

  // Number of tokens that can be completed when rows before `end` are computed.
  std::int64_t done(std::int64_t end) const {
    if (end == n_) return n_;
    return std::clamp<std::int64_t>(end + reach_.low, 0, end);
  }

  // Computes P^T dm of tokens [begin, end), without own rows.
  void apply(std::int64_t begin, std::int64_t end, A* out1, A* out2) const {
    const std::int64_t from = std::max<std::int64_t>(0, reach_.high - (end - 1));
    const std::int64_t to = std::min(reach_.high - reach_.low + 1, n_ - begin + reach_.high);
    const std::int64_t i = begin - reach_.high + from;
    const A* table = window_.reversed + (window_.radius + window_.middle - reach_.high) + from;
    slide<A>(end - begin, std::max<std::int64_t>(to - from, 0), table, nullptr, at(0, i), at(1, i),
             out1, out2);
  }

 private:
  static constexpr int kPlanes = 3;

  A* kept_at(std::int64_t group, int plane) const {
    return kept_ + (group * kPlanes + plane) * reach_.kept * kLanes<A>;
  }
  static void copy(const A* from, std::int64_t rows, A* to) {
    std::copy_n(from, rows * kLanes<A>, to);
  }

  const LineWindow<A>& window_;
  std::int64_t n_;
  TailReach<A> reach_;
  std::int64_t first_;    // first row in the planes
  std::int64_t end_ = 0;  // one past the last row that is kept
  A* kept_ = nullptr;     // [groups, 3, kept]
  A* work_ = nullptr;     // [3, capacity]
  std::int64_t capacity_ = 0;
};

// P^T dm of own rows, for the keys that they read: all keys, or those near one end.
template <class A>
class OwnKeys {
 public:
  OwnKeys(const LineWindow<A>& w, std::int64_t n, std::int64_t groups, Scratch::Scope& scope) {
    if (w.kind == LineKind::kMean || (w.inner_begin(n) == 0 && w.inner_end(n) == n)) return;
    end_ = n;
    if (w.kind == LineKind::kWindow) {
      end_ = w.middle > 0 ? n : std::min(n, w.radius + 1);
      begin_ = w.middle > 0 ? std::max<std::int64_t>(0, n - 1 - w.radius) : 0;
    }
    const std::int64_t size = 2 * groups * (end_ - begin_) * kLanes<A>;
    sums_ = scope.take<A>(size);
    std::fill(sums_, sums_ + size, A(0));
  }

  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  // Sum for key j of a group; moment is 0 or 1.
  A* at(std::int64_t group, int moment, std::int64_t j) const {
    return sums_ + ((2 * group + moment) * (end_ - begin_) + j - begin_) * kLanes<A>;
  }

 private:
  std::int64_t begin_ = 0, end_ = 0;
  A* sums_ = nullptr;  // [groups, 2, keys]
};

// Factors of the table's gradient: w (t - mean of t), w (t^2 - mean of t^2). Rows near the ends
// have other means; the backward pass corrects them row by row.
template <class A>
struct TapWeights {
  A *by_offset = nullptr, *by_square = nullptr;  // indexed like the table
  A mean = 0, mean_square = 0;

  TapWeights() = default;
  TapWeights(const LineWindow<A>& w, std::int64_t n, Scratch::Scope& scope) {
    const std::int64_t reach = std::min(w.radius, n - 1);
    const LineSums sums = sums_of_taps(w, -reach, reach);
    mean = static_cast<A>(sums.offset / sums.weight);
    mean_square = static_cast<A>(sums.square / sums.weight);
    by_offset = scope.take<A>(2 * w.radius + 1);
    by_square = scope.take<A>(2 * w.radius + 1);
    for (std::int64_t k = 0; k <= 2 * w.radius; ++k) {
      const A t = static_cast<A>(k - w.radius);
      by_offset[k] = w.table[k] * (t - mean);
      by_square[k] = w.table[k] * (t * t - mean_square);
    }
  }
};

// For kMean: sums over rows of dm, and of dm times the row index.
template <class A>
struct MeanGradient {
  VectorMoments<A> mean;  // moments of the values
  VectorMoments<A> sum, by_place;

  // Adds the rows of a tile. place: its first row, relative to the middle of the shares.
  void add(std::int64_t place, std::int64_t rows, const A* dm1, const A* dm2) {
    for (std::int64_t begin = 0; begin < rows; begin += kRowPart) {
      VectorMoments<A> part, placed;
      for (std::int64_t t = begin; t < std::min(begin + kRowPart, rows); ++t) {
        const Vec<A> d1 = load(dm1 + t * kLanes<A>), d2 = load(dm2 + t * kLanes<A>);
        const A at = static_cast<A>(place + t);
        part.first += d1;
        part.second += d2;
        placed.first += at * d1;
        placed.second += at * d2;
      }
      sum.first += part.first;
      sum.second += part.second;
      by_place.first += placed.first;
      by_place.second += placed.second;
    }
  }

  // Adds the gradients of a_x and a_d. With key u and row v relative to the middle, d = u - v and
  // d^2 = u^2 - 2 u v + v^2. The softmax removes v^2, which is the same for all keys of a row.
  template <class Values>
  void add_positions(Values values, std::int64_t n, const MeanShares<A>& shares,
                     PositionSums<A>& sums) const {
    for (std::int64_t begin = 0; begin < n; begin += kLineTile) {
      PositionSums<A> part;
      for (std::int64_t j = begin; j < std::min(begin + kLineTile, n); ++j) {
        const auto u = static_cast<double>(j - shares.middle);
        const Vec<A> x = values(j), x2 = x * x;
        const Vec<A> s = sum.first * x + sum.second * x2;
        const Vec<A> e = by_place.first * x + by_place.second * x2;
        const A off = shares.p[j] * static_cast<A>(u - shares.place);
        part.offset += off * s;
        part.square += shares.p[j] * static_cast<A>(u * u - shares.square) * s - (2 * off) * e;
      }
      sums += part;
    }
  }
};

}  // namespace dtn::DTN_ISA
