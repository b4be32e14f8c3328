// Shared by the forward and backward DTN kernels: sizes, the position matrices of all heads, and
// the local moments of one lane group of one head.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/queue.h"
#include "dtn/core/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/dtn/dtn_norm.h"
#include "kernels/dtn/dtn_norm_passes.h"
#include "kernels/dtn/dtn_norm_positions.h"

namespace dtn::DTN_ISA {

// Calls f<T, variant>() for the type and the variant of `args`.
template <class F>
void for_dtn_variant(const char* kernel, const DtnNormArguments& args, F&& f) {
  for_dtype(kernel, args.dtype, [&](auto tag) {
    using T = decltype(tag);
    if (args.variant == DtnVariant::kPaper) {
      f.template operator()<T, DtnVariant::kPaper>();
    } else {
      f.template operator()<T, DtnVariant::kOfficial>();
    }
  });
}

// Returns the gains of `count` channels of image b.
template <class A, class N>
inline Vec<A> load_gains(const DtnNormArguments& args, std::int64_t b, std::int64_t channel,
                         N count) {
  const A* weight = static_cast<const A*>(args.weight) + b * args.parameter_stride;
  const Vec<A> gains = load_n(weight + channel, count);
  return args.scales ? gains + A(1) : gains;
}

// Returns the shifts of `count` channels of image b.
template <class A, class N>
inline Vec<A> load_shifts(const DtnNormForward& args, std::int64_t b, std::int64_t channel,
                          N count) {
  const A* bias = static_cast<const A*>(args.bias) + b * args.parameter_stride;
  return load_n(bias + channel, count);
}

struct DtnSizes {
  std::int64_t batch, grid_h, grid_w, tokens, channels, heads, head_dim;
  std::int64_t padded_tokens;                    // rounded up to whole vectors of any type
  std::int64_t image;                            // elements between the starts of two images
  std::int64_t pool, pooled_h, pooled_w, cells;  // the grid of cells of pool x pool tokens

  explicit DtnSizes(const DtnNormArguments& args)
      : batch(args.batch),
        grid_h(args.grid_h),
        grid_w(args.grid_w),
        tokens(args.grid_h * args.grid_w),
        channels(args.channels),
        heads(args.heads),
        head_dim(args.channels / args.heads),
        padded_tokens((tokens + 15) / 16 * 16),
        image(args.stride()),
        pool(args.pool),
        pooled_h(grid_h / pool),
        pooled_w(grid_w / pool),
        cells(pooled_h * pooled_w) {}

  // Lines of the grid of cells.
  Lines rows() const { return {pooled_w, 1, pooled_h, pooled_w}; }
  Lines columns() const { return {pooled_h, pooled_w, pooled_w, 1}; }
  // All cells, for a pass with a matrix of [cells, cells].
  Lines one_line() const { return {cells, 1, 1, 0}; }
  // Weight of a token in the mean of its cell.
  template <class A>
  A cell_share() const {
    return 1 / static_cast<A>(pool * pool);
  }

  // Returns true if one task per image keeps all threads busy. Otherwise the heads of an image are
  // also spread over threads. Both ways do the same arithmetic in the same order.
  bool image_per_task() const {
    const std::int64_t threads = max_threads(), rounds = (batch + threads - 1) / threads;
    return batch * 8 >= rounds * threads * 7;
  }
};

// Position matrices of as many heads as fit a memory budget. Only long sequences exceed the budget.
template <class A>
class HeadPositions {
 public:
  HeadPositions(const DtnSizes& sizes, DtnVariant variant, const void* pos_weight, bool gradients,
                Scratch::Scope& scope)
      : sizes_(sizes),
        direction_(variant == DtnVariant::kOfficial ? A(-1) : A(1)),
        weight_(static_cast<const A*>(pos_weight)),
        kinds_(gradients ? 4 : 2),
        per_head_(axis(sizes.pooled_w) + axis(sizes.pooled_h)) {
    constexpr std::int64_t kBudget = (std::int64_t{64} << 20) / sizeof(A);
    wave_ = kBudget / per_head_;
    if (wave_ < 1) wave_ = 1;
    if (wave_ > sizes.heads) wave_ = sizes.heads;
    memory_ = scope.take<A>(wave_ * per_head_);
    spans_ = scope.take<Span>(wave_ * spans_per_head());
    blocks_ = scope.take<std::int64_t>(wave_ * 2);
  }

  // Returns true if the matrices of all heads fit the budget together.
  bool holds_all() const { return wave_ == sizes_.heads; }

  // Calls f(first head, number of heads) for each wave of heads, after building their matrices.
  template <class F>
  void for_each_wave(F&& f) {
    for (std::int64_t begin = 0; begin < sizes_.heads; begin += wave_) {
      build(begin);
      const std::int64_t left = sizes_.heads - begin;
      f(begin, left < wave_ ? left : wave_);
    }
  }

  // Builds the matrices of the wave that begins at a head, which replace the previous ones.
  void build(std::int64_t begin) {
    if (begin == begin_) return;
    begin_ = begin;
    std::int64_t count = sizes_.heads - begin < wave_ ? sizes_.heads - begin : wave_;
    // For small matrices, waking the threads costs more than the work.
    const std::int64_t grain = per_head_ > 8192 ? 1 : count;
    parallel_ranges(count, grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t h = begin + first; h < begin + last; ++h) {
        const A* a = weight_ + 3 * h;
        build_positions(sizes_.pooled_w, a[2], a[0], direction_, along_rows(h));
        build_positions(sizes_.pooled_h, a[2], a[1], direction_, down_columns(h));
      }
    });
  }

  PositionMatrices<A> along_rows(std::int64_t head) const {
    const std::int64_t k = head - begin_;
    return matrices(memory_ + k * per_head_, spans_ + k * spans_per_head(), blocks_ + 2 * k,
                    sizes_.pooled_w);
  }
  PositionMatrices<A> down_columns(std::int64_t head) const {
    const std::int64_t k = head - begin_;
    return matrices(memory_ + k * per_head_ + axis(sizes_.pooled_w),
                    spans_ + k * spans_per_head() + kSpanKinds * sizes_.pooled_w,
                    blocks_ + 2 * k + 1, sizes_.pooled_h);
  }

 private:
  // Elements of one matrix; elements of all matrices of an axis of n.
  static std::int64_t square(std::int64_t n) { return (n * n + 15) / 16 * 16; }
  std::int64_t axis(std::int64_t n) const { return kinds_ * square(n) + (n + 15) / 16 * 16; }
  static constexpr std::int64_t kSpanKinds = 3;
  std::int64_t spans_per_head() const { return kSpanKinds * (sizes_.pooled_w + sizes_.pooled_h); }
  PositionMatrices<A> matrices(A* at, Span* spans, std::int64_t* block, std::int64_t n) const {
    const std::int64_t size = square(n);
    A* row = at + kinds_ * size;
    const bool learns = kinds_ == 4;
    return {at,
            at + size,
            learns ? at + 2 * size : nullptr,
            learns ? at + 3 * size : nullptr,
            row,
            spans,
            spans + n,
            spans + 2 * n,
            block};
  }

  const DtnSizes& sizes_;
  A direction_;
  const A* weight_;  // [H, 3]
  std::int64_t kinds_, per_head_, wave_, begin_ = -1;
  A* memory_;
  Span* spans_;
  std::int64_t* blocks_;
};

// Calls work(first, count) for ranges of the images. If one task per image keeps all threads busy,
// these are single images, in parallel; the loops of `work` are then serial. Otherwise it is one
// range of all images. Both ways do the same arithmetic in the same order.
template <class A, class Work>
void for_image_ranges(const DtnSizes& sizes, HeadPositions<A>& positions, Work&& work) {
  if (positions.holds_all() && sizes.image_per_task()) {
    positions.build(0);
    parallel_for(sizes.batch, [&](std::int64_t b) { work(b, 1); });
  } else {
    work(0, sizes.batch);
  }
}

// Calls f(offset, count) for the lane groups of one head: `count` channels from `offset` on.
template <class A, class F>
inline void for_each_group(const DtnSizes& sizes, F&& f) {
  for (std::int64_t c = 0; c < sizes.head_dim; c += kLanes<A>) {
    const std::int64_t left = sizes.head_dim - c;
    if (left >= kLanes<A>) {
      f(c, std::integral_constant<int, kLanes<A>>{});
    } else {
      f(c, static_cast<int>(left));
    }
  }
}

// The base of an image: the mean of its first token. Token means are stored relative to the base,
// because float32 loses the digits of a mean that is much larger than the standard deviation. `x`
// is the image. In the official variant the values lie near +-1 if the mean is that large, so the
// base is the sign of the mean.
template <DtnVariant variant, class T>
inline AccumulatorOf<T> mean_base(const DtnSizes& sizes, const T* x) {
  using A = AccumulatorOf<T>;
  Vec<A> sum{};
  for_each_vector<A>(sizes.channels,
                     [&](std::int64_t c, auto count) { sum += load_n(x + c, count); });
  const A total = reduce_add(sum);
  if constexpr (variant == DtnVariant::kOfficial) return total < 0 ? A(-1) : A(1);
  return total / static_cast<A>(sizes.channels);
}

// A float64 vector with as many lanes as a Vec<A>; for __builtin_convertvector.
template <class A>
struct WideType {
  typedef double type __attribute__((vector_size(kLanes<A> * sizeof(double))));
};
// v scale - shift, rounded once. The official variant's quotients may differ only in their last
// digits, so these digits must not be lost.
template <class A>
inline Vec<A> scale_and_shift(Vec<A> v, double scale, Vec<A> shift) {
  using Wide = typename WideType<A>::type;
  return __builtin_convertvector(
      __builtin_convertvector(v, Wide) * scale - __builtin_convertvector(shift, Wide), Vec<A>);
}

// Arguments and sizes of a pass, and the addresses that both passes compute.
template <class T, DtnVariant variant, class Arguments>
class DtnParts {
 protected:
  using A = AccumulatorOf<T>;
  static constexpr bool kOfficial = variant == DtnVariant::kOfficial;
  static constexpr int lanes = kLanes<A>;

  explicit DtnParts(const Arguments& args) : args_(args), sizes_(args) {}

  const T* input(std::int64_t b) const { return static_cast<const T*>(args_.x) + b * sizes_.image; }
  const A* pivots(std::int64_t b) const {
    return static_cast<const A*>(args_.pivot) + b * sizes_.channels;
  }
  const double* head_scale(std::int64_t b, std::int64_t h) const {
    if constexpr (!kOfficial) return nullptr;
    return static_cast<const double*>(args_.head_rstd) + (b * sizes_.heads + h) * sizes_.tokens;
  }

  const Arguments& args_;
  DtnSizes sizes_;
};

// mixed[t] = l_va var_ln[t] + eps: the part of the variance that comes from the token.
template <class A>
inline void mix_variances(std::int64_t tokens, const A* var, A share, double eps, A* mixed) {
  for (std::int64_t t = 0; t < tokens; ++t) mixed[t] = share * var[t] + static_cast<A>(eps);
}
// The same for all tokens of an image.
template <class A>
inline void mix_variances(const DtnSizes& sizes, const A* var, A share, double eps, A* mixed) {
  mix_variances(sizes.tokens, var, share, eps, mixed);
}

// Prefetches one lane group of some tokens: their cache lines are too far apart for the hardware
// prefetcher. Called in small parts during the work on the previous group, it hides the latency of
// memory. always_inline is needed here and in callers that only prefetch: GCC regards a function
// that only prefetches as free of side effects, and removes its calls.
template <class T>
[[gnu::always_inline]] inline void prefetch_group(const DtnSizes& sizes, const T* x,
                                                  std::int64_t first, std::int64_t count) {
  const std::int64_t channels = sizes.channels;
  x += first * channels;
  for (std::int64_t t = 0; t < count; ++t, x += channels) __builtin_prefetch(x, 0, 2);
}

// plane[t] = x[t] - pivot, or x[t] scale[t] - pivot. x is one lane group of an image. Unused lanes
// become 0 and remain 0 in all later steps.
template <class T, class N>
inline void gather(const DtnSizes& sizes, const T* x, N count, const double* scale,
                   Vec<AccumulatorOf<T>> pivot, AccumulatorOf<T>* plane) {
  using A = AccumulatorOf<T>;
  const std::int64_t tokens = sizes.tokens, channels = sizes.channels;
  for (std::int64_t t = 0; t < tokens; ++t, x += channels, plane += kLanes<A>) {
    Vec<A> v = load_n(x, count);
    store(plane, scale ? scale_and_shift<A>(v, scale[t], pivot) : v - pivot);
  }
}

// cells = factor times the sum of a plane of tokens over each cell. With pool 1 it returns the
// tokens themselves.
template <class A>
const A* sum_pooled(const DtnSizes& sizes, const A* tokens, A factor, A* cells) {
  constexpr int lanes = kLanes<A>;
  if (sizes.pool == 1) return tokens;
  const std::int64_t row = sizes.grid_w * lanes, width = sizes.pool * lanes;
  A* out = cells;
  for (std::int64_t y = 0; y < sizes.pooled_h; ++y, tokens += sizes.pool * row) {
    for (std::int64_t x = 0; x < sizes.pooled_w; ++x, out += lanes) {
      Vec<A> sum{};
      for (std::int64_t i = 0; i < sizes.pool; ++i) {
        const A* from = tokens + i * row + x * width;
        for (std::int64_t j = 0; j < width; j += lanes) sum += load(from + j);
      }
      store(out, sum * factor);
    }
  }
  return cells;
}

// Expands a row of cells to a row of tokens: each token gets the value of its cell. With pool 1 it
// returns the cells themselves.
template <class A>
const A* spread_pooled(const DtnSizes& sizes, const A* cells, A* tokens) {
  constexpr int lanes = kLanes<A>;
  if (sizes.pool == 1) return cells;
  A* out = tokens;
  for (std::int64_t cell = 0; cell < sizes.pooled_w; ++cell) {
    const Vec<A> v = load(cells + cell * lanes);
    for (std::int64_t x = 0; x < sizes.pool; ++x, out += lanes) store(out, v);
  }
  return tokens;
}
// The same for row `row` of tokens, from the plane of all cells.
template <class A>
const A* spread_row(const DtnSizes& sizes, std::int64_t row, const A* cells, A* tokens) {
  return spread_pooled(sizes, cells + row / sizes.pool * sizes.pooled_w * kLanes<A>, tokens);
}

// P x and P x^2 are computed in two steps. The first is the pass down the columns of the whole
// grid, with results z1, z2. The second is the pass along one row of the grid at a time, so that
// the moments of the row are used while they are in cache.
template <class A>
inline void column_moments(const DtnSizes& sizes, const PositionMatrices<A>& columns, const A* x,
                           A* z1, A* z2) {
  pass<A, Second::kSquare>(sizes.columns(), columns.forward(), x, nullptr, z1, z2);
}
template <class A>
class RowMoments {
 public:
  RowMoments(const DtnSizes& sizes, Scratch::Scope& scope)
      : sizes_(sizes),
        m1_(scope.take<A>(sizes.grid_w * kLanes<A>)),
        m2_(scope.take<A>(sizes.grid_w * kLanes<A>)) {}

  void make(const PositionMatrices<A>& rows, std::int64_t row, const A* z1, const A* z2) const {
    const std::int64_t start = row * sizes_.grid_w * kLanes<A>;
    pass<A, Second::kPlane>({sizes_.grid_w, 1, 1, 0}, rows.forward(), z1 + start, z2 + start, m1_,
                            m2_);
  }
  // [grid_w]
  const A* m1() const { return m1_; }
  const A* m2() const { return m2_; }

 private:
  const DtnSizes& sizes_;
  A *m1_, *m2_;
};

}  // namespace dtn::DTN_ISA
