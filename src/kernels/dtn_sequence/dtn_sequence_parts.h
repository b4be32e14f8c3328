// Shared by the forward and backward kernels of DTN on sequences: the arguments of a single sample,
// and the moments of one vector of channels for a tile of tokens.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/dtn/dtn_norm_pooled.h"
#include "kernels/dtn_sequence/dtn_sequence_passes.h"
#include "kernels/dtn_sequence/dtn_sequence_window.h"

namespace dtn::DTN_ISA {

template <class P>
inline P* advanced(P* p, std::int64_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<P>, const char, char>;
  return p ? static_cast<P*>(static_cast<Byte*>(p) + bytes) : nullptr;
}

// Number of valid tokens of sample b.
inline std::int64_t valid_tokens(const std::int64_t* lengths, std::int64_t b, std::int64_t tokens) {
  return lengths ? std::clamp<std::int64_t>(lengths[b], 0, tokens) : tokens;
}

// Returns the arguments for sample b alone, as a sequence of its n valid tokens. The caller sets
// the pointers that only one of the passes has.
template <class T, class Arguments>
Arguments sample_of(const Arguments& args, std::int64_t b, std::int64_t n) {
  constexpr std::int64_t acc = sizeof(AccumulatorOf<T>);
  Arguments one = args;
  one.batch = 1;
  one.grid_w = n;
  one.image_stride = args.stride();
  one.x = advanced(args.x, b * one.image_stride * std::int64_t{sizeof(T)});
  one.token_mean = advanced(args.token_mean, b * args.grid_w * acc);
  one.token_var = advanced(args.token_var, b * args.grid_w * acc);
  one.pivot = advanced(args.pivot, b * args.channels * acc);
  one.head_rstd =
      advanced(args.head_rstd, b * args.heads * args.grid_w * std::int64_t{sizeof(double)});
  return one;
}

// Sets tokens [n, all) of a sample [T, C] to 0.
template <class T>
void clear_pads(void* sample, std::int64_t n, std::int64_t all, std::int64_t channels) {
  std::memset(static_cast<T*>(sample) + n * channels, 0,
              static_cast<std::size_t>((all - n) * channels) * sizeof(T));
}

// Calls f(b, n) for each sample b with n valid tokens. Samples run in parallel if they keep all
// threads busy. Otherwise they run one after the other, and f can use all threads. Both ways do the
// same arithmetic in the same order.
template <class F>
void for_each_sample(const DtnNormArguments& args, const std::int64_t* lengths, F&& f) {
  auto sample = [&](std::int64_t b) { f(b, valid_tokens(lengths, b, args.grid_w)); };
  if (DtnSizes(args).image_per_task()) {
    parallel_for(args.batch, sample);
  } else {
    for (std::int64_t b = 0; b < args.batch; ++b) sample(b);
  }
}

// Builds the windows of all heads.
template <class A>
const LineWindow<A>* make_windows(const DtnNormArguments& args, Scratch::Scope& scope) {
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

// Values of one vector of channels of a sample, for the statistics: x minus the pivot, or for the
// official variant x times head_rstd minus the pivot.
template <class T, DtnVariant variant, class N>
struct LineValues {
  using A = AccumulatorOf<T>;
  const T* x;  // at the first token
  std::int64_t channels;
  N count;
  const double* scale;  // of the head, [T]
  Vec<A> pivot;

  Vec<A> operator()(std::int64_t t) const {
    return relative_to_pivot<variant, A>(Vec<A>(load_n(x + t * channels, count)), scale, t, pivot);
  }
};

// Stores tokens [begin, end) in a plane. `values` is passed by value: through a reference, the
// compiler would reload its fields after each store.
template <class Values>
void gather_line(Values values, std::int64_t begin, std::int64_t end, typename Values::A* plane) {
  for (std::int64_t t = begin; t < end; ++t, plane += kLanes<typename Values::A>) {
    store(plane, values(t));
  }
}

// The next block to prefetch: some channels of one tile. Each vector of channels of the current
// block prefetches a part of it.
struct LineAhead {
  std::int64_t first;                // first token of the tile
  std::int64_t shift;                // tokens of it that windows of the previous tile have read
  std::int64_t channel, channels;    // first channel, number of channels
  std::int64_t turn = 0, turns = 1;  // turn of this head, number of heads that share the block

  // Number of tokens of the next tile that the windows of a head read.
  template <class A>
  static std::int64_t shift_of(const LineWindow<A>& w) {
    return std::clamp<std::int64_t>(w.middle + w.radius, 0, kLineTile);
  }
  // The tile at `first`, channels of one head.
  template <class A>
  static LineAhead of_head(const LineWindow<A>* windows, const DtnSizes& sizes, std::int64_t h,
                           std::int64_t first) {
    return {first, shift_of(windows[h]), h * sizes.head_dim, sizes.head_dim};
  }
  // The block after head h of the tile at `first`: the next head of the tile, or the first head of
  // the next tile.
  template <class A>
  static LineAhead after(const LineWindow<A>* windows, const DtnSizes& sizes, std::int64_t h,
                         std::int64_t first) {
    const bool last = h + 1 == sizes.heads;
    return of_head(windows, sizes, last ? 0 : h + 1, last ? first + kLineTile : first);
  }
  // All channels of the tile at `first`, in memory order. The heads of the previous tile prefetch
  // it in turns.
  static LineAhead of_tile(const DtnSizes& sizes, std::int64_t h, std::int64_t first,
                           std::int64_t shift) {
    return {first, shift, 0, sizes.channels, h, sizes.heads};
  }

  // Prefetches part g of `parts` from the values [T, C] at x.
  template <class T>
  [[gnu::always_inline]] void fetch(const DtnSizes& sizes, const T* x, std::int64_t g,
                                    std::int64_t parts) const {
    fetch_rows(sizes, x, first, g, parts);
  }
  // The same for the tokens that windows read and the previous tile has not read.
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

// Weight of each token in the weighted mean of a sample, for a_d = 0.
template <class A>
struct MeanShares {
  A* p = nullptr;  // [n]
  // The token next to the weighted mean index. `place` and `square` are the weighted means of the
  // index and of its square, relative to `middle`.
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
  // Relative to the middle, to keep precision if one token has almost all of the weight.
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

// Weighted means of the values and of their squares. Each tile is one partial sum.
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

// Workspace for a tile of one vector of channels, and its moments.
template <class A>
class LinePlanes {
 public:
  // For tiles of sequences of n tokens.
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

  // Reads a tile and computes its moments. The tile has weights (it is not kMean).
  template <class Values>
  void make(const LineTile<A>& tile, std::int64_t n, Values values) {
    if (tile.inner()) make_inner(tile, n, values);
    if (tile.own.any()) make_own(tile, values);
    if (!holds_tokens(tile)) gather_line(values, tile.first, tile.first + tile.rows, tokens_);
  }
  // The same for kMean: all rows have the same moments.
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
  // Tokens [begin, end) inside the plane that the tile's inner rows read; null if not all of them
  // are there.
  const A* window(const LineTile<A>& tile, std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = tile.inner_begin + tile.low;
    const std::int64_t last = tile.inner_end + tile.low + tile.taps - 1;
    if (!tile.inner() || begin < first || end > last) return nullptr;
    return window1_ + (begin - first) * kLanes<A>;
  }
  // Tokens that inner rows read, from inner_begin + low on, and their squares.
  const A* window1() const { return window1_; }
  const A* window2() const { return window2_; }
  // Largest number of columns of own rows; the values of the columns and their squares.
  std::int64_t own_rows() const { return own_rows_; }
  const A* own1() const { return own1_; }
  const A* own2() const { return own2_; }

 private:
  // True if the plane that inner rows read contains all tokens of the tile.
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
    for_each_group<kOwnBlock>(0, own.end - own.begin, [&](std::int64_t i, auto rows) {
      own_block<A, rows>(own.columns, own.stride, own.p + i * own.stride, own1_, own2_,
                         m1_ + at + i * lanes, m2_ + at + i * lanes);
    });
  }

  std::int64_t own_rows_;
  A *window1_, *window2_, *own1_, *own2_, *tokens_, *m1_, *m2_;
};

}  // namespace dtn::DTN_ISA
