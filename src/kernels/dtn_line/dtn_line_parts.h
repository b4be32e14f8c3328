// What the forward and backward kernels of DTN along a line share: a sample as a problem of its own,
// and the moments of one vector of channels of a tile of its tokens.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/dtn/dtn_norm_cells.h"
#include "kernels/dtn_line/dtn_line_passes.h"
#include "kernels/dtn_line/dtn_line_window.h"

namespace dtn::DTN_ISA {

template <class P>
inline P* advanced(P* p, std::int64_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<P>, const char, char>;
  return p ? static_cast<P*>(static_cast<Byte*>(p) + bytes) : nullptr;
}

// The valid tokens of sample b.
inline std::int64_t valid_tokens(const std::int64_t* lengths, std::int64_t b, std::int64_t tokens) {
  return lengths ? std::clamp<std::int64_t>(lengths[b], 0, tokens) : tokens;
}

// The arguments of a pass over the n valid tokens of sample b alone, a line of their own, but for
// the pointers that only one pass has.
template <class T, class Arguments>
Arguments sample_of(const Arguments& args, std::int64_t b, std::int64_t n) {
  constexpr std::int64_t acc = sizeof(AccumulatorOf<T>);
  Arguments one = args;
  one.batch = 1;
  one.grid_w = n;
  one.image_stride = dtn_image_stride(args);
  one.x = advanced(args.x, b * one.image_stride * std::int64_t{sizeof(T)});
  one.token_mean = advanced(args.token_mean, b * args.grid_w * acc);
  one.token_var = advanced(args.token_var, b * args.grid_w * acc);
  one.pivot = advanced(args.pivot, b * args.channels * acc);
  one.head_rstd =
      advanced(args.head_rstd, b * args.heads * args.grid_w * std::int64_t{sizeof(double)});
  return one;
}

// Tokens [n, all) of a sample [T, C] become 0.
template <class T>
void clear_pads(void* sample, std::int64_t n, std::int64_t all, std::int64_t channels) {
  std::memset(static_cast<T*>(sample) + n * channels, 0,
              static_cast<std::size_t>((all - n) * channels) * sizeof(T));
}

// Calls f(b, n) for all samples, n tokens of which are valid: samples side by side where they keep
// all threads busy; else one after the other, and f finds the threads free. Either way does the same
// arithmetic in the same order.
template <class Arguments, class F>
void for_each_sample(const Arguments& args, const std::int64_t* lengths, F&& f) {
  auto sample = [&](std::int64_t b) { f(b, valid_tokens(lengths, b, args.grid_w)); };
  if (DtnSizes(args).image_per_task()) {
    parallel_for(args.batch, sample);
  } else {
    for (std::int64_t b = 0; b < args.batch; ++b) sample(b);
  }
}

// The windows of all heads.
template <class A, class Arguments>
const LineWindow<A>* make_windows(const Arguments& args, Scratch::Scope& scope) {
  auto* windows = scope.take<LineWindow<A>>(args.heads);
  for (std::int64_t h = 0; h < args.heads; ++h) {
    windows[h] = make_window(static_cast<const A*>(args.pos_weight) + 3 * h, args.variant,
                             args.grid_w, scope);
  }
  parallel_for(args.heads, [&](std::int64_t h) {
    if (windows[h].kind == LineKind::kWindow) fill_table(windows[h]);
  });
  return windows;
}

// One vector of channels of a sample's tokens, as the statistics see them: less the pivot, or of the
// official variant the quotients less the pivot.
template <class T, DtnVariant variant, class N>
struct LineValues {
  using A = AccumulatorOf<T>;
  const T* x;  // of the first token
  std::int64_t channels;
  N count;
  const double* scale;  // of the head, [T]
  Vec<A> pivot;

  Vec<A> operator()(std::int64_t t) const {
    return relative_to_pivot<variant, A>(Vec<A>(load_n(x + t * channels, count)), scale, t, pivot);
  }
};

// Tokens [begin, end) into a plane. Values are handed over whole: what is behind a reference would be
// read anew after each store.
template <class Values>
void gather_line(Values values, std::int64_t begin, std::int64_t end, typename Values::A* plane) {
  for (std::int64_t t = begin; t < end; ++t, plane += kLanes<typename Values::A>) {
    store(plane, values(t));
  }
}

// What is worked on next, some channels of one tile: to be fetched ahead, a part with each of the
// vectors of channels before it.
struct LineAhead {
  std::int64_t first;                // token of the tile
  std::int64_t shift;                // tokens of it that windows of the tile before saw already
  std::int64_t channel, channels;    // where they begin, and how many they are
  std::int64_t turn = 0, turns = 1;  // of those who fetch all parts in turn

  // How many tokens the windows of a head see beyond a tile, of those of the next.
  template <class A>
  static std::int64_t shift_of(const LineWindow<A>& w) {
    return std::clamp<std::int64_t>(w.middle + w.radius, 0, kLineTile);
  }
  // The tile from `first` on, of a head.
  template <class A>
  static LineAhead of_head(const LineWindow<A>* windows, const DtnSizes& sizes, std::int64_t h,
                           std::int64_t first) {
    return {first, shift_of(windows[h]), h * sizes.head_dim, sizes.head_dim};
  }
  // After head h of the tile from `first` on: the next head of that tile, or the first of the next.
  template <class A>
  static LineAhead after(const LineWindow<A>* windows, const DtnSizes& sizes, std::int64_t h,
                         std::int64_t first) {
    const bool last = h + 1 == sizes.heads;
    return of_head(windows, sizes, last ? 0 : h + 1, last ? first + kLineTile : first);
  }
  // All channels of the tile from `first` on, in the order of memory, while the heads of the tile
  // before take their turns.
  static LineAhead of_tile(const DtnSizes& sizes, std::int64_t h, std::int64_t first,
                           std::int64_t shift) {
    return {first, shift, 0, sizes.channels, h, sizes.heads};
  }

  // Part g of `parts`, of values [T, C] from `x` on.
  template <class T>
  [[gnu::always_inline]] void fetch(const DtnSizes& sizes, const T* x, std::int64_t g,
                                    std::int64_t parts) const {
    fetch_rows(sizes, x, first, g, parts);
  }
  // The same of what windows see, as far as the tile before did not.
  template <class T>
  [[gnu::always_inline]] void fetch_window(const DtnSizes& sizes, const T* x, std::int64_t g,
                                           std::int64_t parts) const {
    fetch_rows(sizes, x, first + shift, g, parts);
  }

 private:
  template <class T>
  [[gnu::always_inline]] void fetch_rows(const DtnSizes& sizes, const T* x, std::int64_t from,
                                         std::int64_t g, std::int64_t parts) const {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    const std::int64_t rows = std::clamp<std::int64_t>(sizes.tokens - from, 0, kLineTile);
    const std::int64_t part = turn * parts + g, all = turns * parts;
    const std::int64_t begin = rows * part / all, end = rows * (part + 1) / all;
    if (channels < sizes.channels) {
      for (std::int64_t c = channel; c < channel + channels; c += kLine) {
        prefetch_group(sizes, x + c, from + begin, end - begin);
      }
      return;
    }
    x += (from + begin) * channels;
    for (std::int64_t i = 0; i < (end - begin) * channels; i += kLine) {
      __builtin_prefetch(x + i, 0, 2);
    }
  }
};

// The share of each token in the one mean of a sample where a_d = 0.
template <class A>
struct MeanShares {
  A* p = nullptr;  // [n]
  // The token next to their mean place; relative to that, the mean place and mean square.
  std::int64_t middle = 0;
  double place = 0, square = 0;
};

template <class A>
MeanShares<A> make_mean_shares(const LineWindow<A>& w, std::int64_t n, Scratch::Scope& scope) {
  MeanShares<A> shares{scope.take<A>(n)};
  A* p = shares.p;
  const std::int64_t c = w.a_x > 0 ? n - 1 : 0;
  Vec<A> sum{};
  const Vec<A> iota = lane_indices<A>();
  for_each_vector<A>(n, [&](std::int64_t j, auto count) {
    const Vec<A> t = iota + static_cast<A>(j - c);
    const Vec<A> e = keep_n(exp(t * static_cast<A>(w.a_x)), count);
    store_n(p + j, e, count);
    sum += e;
  });
  const A scale = 1 / reduce_add(sum);
  LineSums sums{};
  for (std::int64_t j = 0; j < n; ++j) {
    const auto share = static_cast<double>(p[j] * scale), place = static_cast<double>(j);
    p[j] =
        share < static_cast<double>(std::numeric_limits<A>::min()) ? A(0) : static_cast<A>(share);
    sums.weight += share;
    sums.offset += share * place;
    sums.square += share * place * place;
  }
  // Around the middle, so that nothing is lost where one token has next to all of the weight.
  const double mean = sums.offset / sums.weight, middle = std::nearbyint(mean);
  shares.middle = mean == mean ? static_cast<std::int64_t>(middle) : 0;
  sums = {};
  for (std::int64_t j = 0; j < n; ++j) {
    const auto t = static_cast<double>(j - shares.middle), share = static_cast<double>(p[j]);
    sums = {sums.weight + share, sums.offset + share * t, sums.square + share * t * t};
  }
  shares.place = sums.offset / sums.weight;
  shares.square = sums.square / sums.weight;
  return shares;
}

// Moments of a vector of channels.
template <class A>
struct VectorMoments {
  Vec<A> first{}, second{};
};

// The weighted mean of values and of their squares; parts of a tile are added up once each.
template <class Values, class A = typename Values::A>
VectorMoments<A> mean_moments(Values values, std::int64_t n, const A* shares) {
  VectorMoments<A> m;
  for (std::int64_t begin = 0; begin < n; begin += kLineTile) {
    VectorMoments<A> part;
    for (std::int64_t t = begin; t < std::min(begin + kLineTile, n); ++t) {
      const Vec<A> v = values(t), weighted = v * shares[t];
      part.first += weighted;
      part.second += weighted * v;
    }
    m.first += part.first;
    m.second += part.second;
  }
  return m;
}

// Room for a tile of one vector of channels, and its moments.
template <class A>
class LinePlanes {
 public:
  // For tiles of lines of n.
  LinePlanes(const LineWindow<A>* windows, std::int64_t heads, std::int64_t n,
             Scratch::Scope& scope) {
    std::int64_t window = 0, own = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      const LineWindow<A>& w = windows[h];
      if (w.kind == LineKind::kMean) continue;
      if (w.inner_begin(n) < w.inner_end(n)) {
        window = std::max(window, std::min(2 * w.radius + 1, n + kLineTile));
      }
      own = std::max(own, w.kind == LineKind::kWindow ? std::min(n, w.radius + 1) : n);
    }
    const std::int64_t rows = kLineTile + kLineSlack;
    own_rows_ = own;
    window1_ = plane(scope, window + rows);
    window2_ = plane(scope, window + rows);
    own1_ = plane(scope, own);
    own2_ = plane(scope, own);
    tokens_ = plane(scope, rows);
    m1_ = plane(scope, rows);
    m2_ = plane(scope, rows);
  }

  static A* plane(Scratch::Scope& scope, std::int64_t rows) {
    return scope.take<A>(rows * kLanes<A>);
  }

  // Of a tile of which there are rows with weights.
  template <class Values>
  void make(const LineTile<A>& tile, std::int64_t n, Values values) {
    if (tile.inner()) make_inner(tile, n, values);
    if (tile.own.any()) make_own(tile, values);
    if (!holds_tokens(tile)) gather_line(values, tile.first, tile.first + tile.rows, tokens_);
  }
  // Of a tile where all rows are one mean.
  template <class Values>
  void make(const LineTile<A>& tile, const VectorMoments<A>& mean, Values values) {
    gather_line(values, tile.first, tile.first + tile.rows, tokens_);
    for (std::int64_t t = 0; t < tile.rows; ++t) {
      store(m1_ + t * kLanes<A>, mean.first);
      store(m2_ + t * kLanes<A>, mean.second);
    }
  }

  // The tokens of the tile and their moments, [rows].
  A* tokens(const LineTile<A>& tile) const {
    return holds_tokens(tile) ? window1_ - tile.low * kLanes<A> : tokens_;
  }
  const A* m1() const { return m1_; }
  const A* m2() const { return m2_; }
  // Tokens [begin, end), where they lie in what the tile's inner rows see; else null.
  const A* window(const LineTile<A>& tile, std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = tile.inner_begin + tile.low;
    const std::int64_t last = tile.inner_end + tile.low + tile.taps - 1;
    if (!tile.inner() || begin < first || end > last) return nullptr;
    return window1_ + (begin - first) * kLanes<A>;
  }
  // What inner rows see, from `low` before the first of them on, and its squares.
  const A* window1() const { return window1_; }
  const A* window2() const { return window2_; }
  // The columns of own rows; how many there may be.
  std::int64_t own_rows() const { return own_rows_; }
  const A* own1() const { return own1_; }
  const A* own2() const { return own2_; }

 private:
  // Whether the window of the rows has them all in it.
  static bool holds_tokens(const LineTile<A>& tile) {
    return tile.inner_end - tile.inner_begin == tile.rows && tile.low <= 0 &&
           tile.low + tile.taps > 0;
  }

  template <class Values>
  void make_inner(const LineTile<A>& tile, std::int64_t n, Values values) {
    constexpr int lanes = kLanes<A>;
    const std::int64_t rows = tile.inner_end - tile.inner_begin;
    const std::int64_t begin = tile.inner_begin + tile.low;
    const std::int64_t end = begin + rows + tile.taps - 1 + kLineSlack;
    const std::int64_t first = std::clamp<std::int64_t>(0, begin, end), last = std::min(n, end);
    A *a = window1_, *b = window2_;
    auto put = [&](Vec<A> v) {
      store(a, v);
      store(b, v * v);
      a += lanes;
      b += lanes;
    };
    for (std::int64_t t = begin; t < first; ++t) put(Vec<A>{});
    for (std::int64_t t = first; t < last; ++t) put(values(t));
    for (std::int64_t t = std::max(first, last); t < end; ++t) put(Vec<A>{});
    const std::int64_t k = tile.inner_begin - tile.first;
    slide(rows, tile.taps, tile.table, tile.whole ? nullptr : tile.scale + k, window1_, window2_,
          m1_ + k * lanes, m2_ + k * lanes);
  }

  template <class Values>
  void make_own(const LineTile<A>& tile, Values values) {
    constexpr int lanes = kLanes<A>;
    const OwnRows<A>& own = tile.own;
    for (std::int64_t k = 0; k < own.columns; ++k) {
      const Vec<A> v = values(own.column(k));
      store(own1_ + k * lanes, v);
      store(own2_ + k * lanes, v * v);
    }
    const std::int64_t at = (own.begin - tile.first) * lanes;
    for_each_own_block(own.end - own.begin, [&](std::int64_t i, auto rows) {
      own_block<A, rows>(own.columns, own.stride, own.p + i * own.stride, own1_, own2_,
                         m1_ + at + i * lanes, m2_ + at + i * lanes);
    });
  }

  std::int64_t own_rows_;
  A *window1_, *window2_, *own1_, *own2_, *tokens_, *m1_, *m2_;
};

}  // namespace dtn::DTN_ISA
